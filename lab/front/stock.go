package front

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/harness/capacity"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// pages are what the servers serve.
//
//go:embed stock
var pages embed.FS

// page returns a file of pages.
func page(name string) string {
	text, err := pages.ReadFile("stock/" + name)
	if err != nil {
		panic(err) // the compiler put it there
	}
	return string(text)
}

// stockServer is an unmodified server of somebody else.
type stockServer struct {
	name  string
	path  string // of the page, with what it is to do
	start func(ctx context.Context) (*servers.Server, error)
}

// backs are the processors of the servers; front ends and clients have the first.
var backs = []int{1}

// debians is what Debian's packages set for prefork and for connections that are kept.
const debians = "StartServers 5\nMinSpareServers 5\nMaxSpareServers 10\nKeepAliveTimeout 5\n"

func stockServers() []stockServer {
	apache := func(workers int, settings string) func(context.Context) (*servers.Server, error) {
		return func(ctx context.Context) (*servers.Server, error) {
			return servers.Apache(ctx, servers.ApacheConfig{Workers: workers, PHP: true, CPUs: backs, Settings: settings, Files: map[string]string{"page.php": page("page.php")}})
		}
	}
	return []stockServer{
		{"Apache and PHP, 150 processes", "/page.php?rounds=40000&wait=12000", apache(150, debians)},
		{"Apache and PHP, 8 processes", "/page.php?rounds=10000&wait=30000", apache(8, "")},
		{"Tomcat, 200 threads", "/page?rounds=20000&wait=12000", func(ctx context.Context) (*servers.Server, error) {
			return servers.Tomcat(ctx, servers.TomcatConfig{CPUs: backs, Descriptor: page("web.xml"), Sources: map[string]string{"Page.java": page("Page.java")}})
		}},
	}
}

// Stock returns the experiment that overloads servers of others behind the proxy. The bars
// are beside the contender that is called envoy, if it takes part.
func Stock(third ...Contender) experiment.Experiment {
	return experiment.Experiment{
		Name:  "front/stock",
		Title: "Apache with PHP and Tomcat with the workers that Debian sets, asked for twice what they can do",
		About: `Each server has one processor, and as many workers as its package sets, or eight; a page takes some milliseconds of
processor time and waits for some more. Capacity is the most that the server answers in time without a proxy. Clients
that know nothing of Spillgate ask for half of it, and then, from when on all counts, for twice that: through a proxy
that knows the objective of 100 ms and nothing else, also without the time before; through the same proxy without
control; and through nginx with limit_conn at each of some limits, of which the best in hindsight is compared. A client
gives up after a second. p99 is that of answers. Medians of the repeats.`,
		Live: true,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			s := stock{objective: objective, length: 8 * time.Second, repeats: 3, limits: []int{4, 8, 16, 32}, third: third, servers: stockServers()}
			if o.Quick {
				s.length, s.repeats, s.limits = 3*time.Second, 1, []int{4, 8, 16}
			}
			return s.run(ctx, o)
		},
	}
}

// stock is how the servers are overloaded.
type stock struct {
	objective, length time.Duration
	repeats           int
	limits            []int // of nginx
	third             []Contender
	servers           []stockServer
}

// overload is how many times the capacity clients ask for, and gaveUp when they give up.
const (
	overload = 2.0
	gaveUp   = time.Second
)

// A proxy passes usual on of the capacity for a time before the overload, and one with cold
// in its name nothing.
const (
	usual  = 0.5
	before = 2 * time.Second
	cold   = ", from its first request"
)

// contenders are what stands in front of a server.
func (s *stock) contenders() []Contender {
	all := []Contender{{Name: ours, order: &proxyOrder{Objective: s.objective}}, {Name: ours + cold, order: &proxyOrder{Objective: s.objective}},
		{Name: "no control", order: &proxyOrder{Objective: s.objective, Mode: live.Off}}}
	for _, n := range s.limits {
		all = append(all, nginx(n)...)
	}
	return append(all, s.third...)
}

// borne is what a contender came to.
type borne struct {
	goodput, p99, refusal, others []float64 // of the capacity; ms; ms; % not served that was not refused
	disturbed                     []string
}

func (s *stock) run(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	if err := limitFiles(0); err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	for i := range s.servers {
		if err := s.overload(ctx, o, r, i); err != nil {
			return nil, fmt.Errorf("%s: %w", s.servers[i].name, err)
		}
	}
	return r, nil
}

// overload measures the i-th server and states its bars.
func (s *stock) overload(ctx context.Context, o experiment.Options, r *experiment.Result, i int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	which, all := s.servers[i], s.contenders()
	steps := 1 + s.repeats*len(all)
	o.Step(i*steps, len(s.servers)*steps, which.name)
	back, err := which.start(ctx)
	if err != nil {
		return err
	}
	defer back.Stop()
	addr := fmt.Sprintf("%s:%d", back.Host, back.Port)
	found, err := s.capacity(ctx, o, "http://"+addr+which.path)
	if err != nil {
		return err
	}
	got := make([]borne, len(all))
	for n := range s.repeats {
		for k := range all {
			o.Step(i*steps+1+n*len(all)+k, len(s.servers)*steps, which.name+" behind "+all[k].Name)
			if err := rest(ctx, back); err != nil {
				return err
			}
			if err := with(ctx, &all[k], addr, func(child *proc.Child, front string) error {
				return got[k].bear(ctx, s, "http://"+front+which.path, found, strings.HasSuffix(all[k].Name, cold), o.Seed+uint64(n))
			}); err != nil {
				return err
			}
		}
	}
	s.judge(r, which.name, found, all, got)
	return nil
}

// capacity warms a server up, and returns what it answers in time, in requests per second.
func (s *stock) capacity(ctx context.Context, o experiment.Options, url string) (float64, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // none keeps a process from the others
	ask(ctx, client, url, warmRate, s.length)                                   // compilers and processes that a server starts on demand
	found, err := capacity.Find(ctx, capacity.Config{Send: send(client, url), SLO: s.objective, Try: s.length / 4, Retake: s.length / 2, MaxConcurrency: 64, Seed: o.Seed})
	return found.Rate, err
}

// rest returns when a server has nothing more to do: it works on what clients gave up, and
// holds connections that they left.
func rest(ctx context.Context, back *servers.Server) error {
	for used, calm := back.CPU(), 0; calm < 5; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		now := back.CPU()
		if calm++; now-used > 10*time.Millisecond {
			calm = 0
		}
		used = now
	}
	return nil
}

// warmRate is at what rate a server is asked at first, in requests per second.
const warmRate = 100

// bear asks for more than the server behind url can do.
func (b *borne) bear(ctx context.Context, s *stock, url string, found float64, isCold bool, seed uint64) error {
	client := clients()
	defer client.CloseIdleConnections()
	if !isCold {
		ask(ctx, client, url, int(usual*found), before)
	}
	arrivals, err := openloop.Poisson(openloop.Steady(overload*found, s.length), seed)
	if err != nil {
		return err
	}
	g, err := openloop.New(openloop.Config{Arrivals: arrivals, Send: send(client, url), SLO: s.objective, Drain: gaveUp})
	if err != nil {
		return err
	}
	res, err := g.Run(ctx)
	if err != nil {
		return err
	}
	if !res.Valid {
		b.disturbed = append(b.disturbed, strings.Join(res.Invalid, ", "))
	}
	t := &res.Total
	b.goodput = append(b.goodput, float64(t.Good)/s.length.Seconds()/found)
	b.p99 = append(b.p99, t.Latency.P99.Seconds()*1e3)
	b.refusal = append(b.refusal, t.Refusal.P99.Seconds()*1e3)
	b.others = append(b.others, 100*float64(t.Failed+t.TimedOut+t.Unfinished)/float64(max(t.Offered, 1)))
	return nil
}

// clients are many that keep their connections.
func clients() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: 10 * time.Second}}
}

// send asks for url, and gives up in time.
func send(client *http.Client, url string) openloop.Send {
	return func(ctx context.Context, _ int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(ctx, intended.Add(gaveUp))
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return measure.Outcome{Kind: measure.Failed, Reason: "request"}
		}
		resp, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return measure.Outcome{Kind: measure.TimedOut}
		case err != nil:
			return measure.Outcome{Kind: measure.Failed, Reason: "connection"}
		case resp.StatusCode == http.StatusOK:
			return measure.Outcome{Kind: measure.Served}
		case resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests:
			return measure.Outcome{Kind: measure.Refused, Reason: resp.Status}
		}
		return measure.Outcome{Kind: measure.Failed, Reason: resp.Status}
	}
}

// judge states the bars; the first two contenders are ours.
func (s *stock) judge(r *experiment.Result, name string, found float64, all []Contender, got []borne) {
	t := &table.Table{Title: fmt.Sprintf("%s: twice %.0f requests/s", name, found), Columns: []table.Column{{Name: "in front"}, {Name: "goodput by the capacity", Format: "%.2f"},
		{Name: "p99 of answers", Unit: "ms", Format: "%.0f"}, {Name: "p99 of refusals", Unit: "ms", Format: "%.1f"}, {Name: "failed or given up", Unit: "%", Format: "%.1f"}}}
	hand, envoy := -1, -1
	for k, c := range all {
		b := &got[k]
		t.Add(c.Name, median(b.goodput), median(b.p99), median(b.refusal), median(b.others))
		switch {
		case strings.HasPrefix(c.Name, "nginx") && (hand < 0 || median(b.goodput) > median(got[hand].goodput)):
			hand = k
		case strings.HasPrefix(c.Name, "envoy"):
			envoy = k
		}
	}
	r.Table = append(r.Table, t)
	for k := range 2 {
		us := &got[k]
		r.On(experiment.Machine{Ours: us.disturbed}, func() {
			r.Floor(name+", "+all[k].Name+": goodput by the capacity", "", 0.9, 0.05, median(us.goodput))
			r.Ceiling(name+", "+all[k].Name+": p99 of answers", " ms", s.objective.Seconds()*1e3, 0, median(us.p99))
		})
	}
	us := &got[0]
	if hand >= 0 {
		r.On(experiment.Machine{Ours: us.disturbed, Theirs: got[hand].disturbed}, func() {
			r.Floor(name+": goodput by that of the best limit_conn", "", 0.95, 0.05, median(us.goodput)/median(got[hand].goodput))
		})
	}
	if envoy >= 0 {
		r.On(experiment.Machine{Ours: us.disturbed, Theirs: got[envoy].disturbed}, func() {
			r.Floor(name+": goodput by Envoy's", "", 1, 0.05, median(us.goodput)/median(got[envoy].goodput))
		})
	}
}
