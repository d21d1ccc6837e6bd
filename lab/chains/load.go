package chains

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/work"
)

// Load is what the generator sends. Which request begins where, asks for how much
// and waits for how long follows from the seed.
type Load struct {
	// Chains and Singles are the requests per second to all servers together, of
	// those that visit every server and of those that visit one. One of them may be
	// nil; both are to last equally long.
	Chains  openloop.Profile `json:"chains"`
	Singles openloop.Profile `json:"singles"`
	// Patience is the mean time until a caller of a class gives up; it is
	// exponential. Default, for a class: none does, within half a minute.
	Patience [work.NumClasses]time.Duration `json:"patience_ns"`
	// Least and Most are the bytes of an answer, uniformly distributed. Default 0.
	Least int `json:"least"`
	Most  int `json:"most"`
	// Silent callers say nothing of classes; who is in between has to see for
	// itself.
	Silent bool `json:"silent,omitempty"`
	// From is where the part of the run begins that counts.
	From time.Duration `json:"from_ns"`
	// Window is the resolution of the time series. Default 1 s; at least 1 ms.
	Window time.Duration `json:"window_ns"`
	Seed   uint64        `json:"seed"`
}

// The sizes of the paper's requests. It gives no upper bound for the large ones.
const (
	smallLeast, smallMost = 100_000, 200_000
	largeLeast, largeMost = 200_000, 400_000
)

// longestWait is when callers without patience give up.
const longestWait = 30 * time.Second

func (l Load) validate() error {
	var errs []error
	for _, p := range []openloop.Profile{l.Chains, l.Singles} {
		if p == nil {
			continue
		}
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("chains: %w", err))
		}
	}
	if l.Chains == nil && l.Singles == nil {
		errs = append(errs, errors.New("chains: the load has neither chains nor singles, expected one of them at least"))
	}
	if l.Least < 0 || l.Most < l.Least || l.Most > maxSize {
		errs = append(errs, fmt.Errorf("chains: Least and Most are %d and %d bytes, expected 0 to %d", l.Least, l.Most, maxSize))
	}
	for class, p := range l.Patience {
		if p < 0 {
			errs = append(errs, fmt.Errorf("chains: Patience of %v is %v, expected above 0, or 0 for none", work.Class(class), p))
		}
	}
	if l.Window != 0 && l.Window < time.Millisecond {
		errs = append(errs, fmt.Errorf("chains: Window is %v, expected 1ms or more, or 0 for the default", l.Window))
	}
	if d := l.duration(); l.From < 0 || l.From >= d {
		errs = append(errs, fmt.Errorf("chains: From is %v, expected before the end at %v", l.From, d))
	}
	return errors.Join(errs...)
}

func (l Load) duration() time.Duration { return max(l.Chains.Duration(), l.Singles.Duration()) }

func (l Load) window() time.Duration {
	if l.Window == 0 {
		return time.Second
	}
	return l.Window
}

// ClassResult is what became of the requests of one class that were meant to leave
// in the part of a run that counts. Times are from the instant at which a request
// was meant to leave.
type ClassResult struct {
	// Offered is the sum of what follows.
	Offered int `json:"offered"`
	Served  int `json:"served"`
	// Abandoned are those whose callers gave up.
	Abandoned int `json:"abandoned"`
	// Refused were turned away, with the status of a gate.
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	// The latency of what was served.
	Mean time.Duration `json:"mean_ns"`
	P50  time.Duration `json:"p50_ns"`
	P95  time.Duration `json:"p95_ns"`
	P99  time.Duration `json:"p99_ns"`
	// Series is the whole run, in stretches of the load's window.
	Series []Stretch `json:"series"`
}

// sent returns the requests of the whole run.
func (c *ClassResult) sent() (n int) {
	for _, s := range c.Series {
		n += s.Offered
	}
	return n
}

// Stretch are the requests that were meant to leave in one window of a run.
type Stretch struct {
	Offered   int           `json:"offered"`
	Served    int           `json:"served"`
	Abandoned int           `json:"abandoned"`
	Mean      time.Duration `json:"mean_ns"` // of the served, 0 if there are none
}

// Measured is what came of a run.
type Measured struct {
	// Begun is the instant from which the run's times count.
	Begun time.Time                    `json:"begun"`
	Class [work.NumClasses]ClassResult `json:"class"`
	// Lag is the p99 of how late requests left.
	Lag time.Duration `json:"lag_ns"`
	// Invalid says why the run does not count; it does if that is empty.
	Invalid []string `json:"invalid,omitempty"`
}

// generate sends a load to servers and returns what became of it. A server calls the
// next one, or its own exit if there are some. mean is the service time at each.
func generate(ctx context.Context, l Load, servers, exits []string, mean time.Duration) (Measured, error) {
	if err := l.validate(); err != nil {
		return Measured{}, err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	var all []*sender
	for class, profile := range [work.NumClasses]openloop.Profile{work.Default: l.Singles, work.Interactive: l.Chains} {
		if profile == nil {
			continue
		}
		s, err := newSender(l, work.Class(class), profile, servers, exits, mean, client)
		if err != nil {
			return Measured{}, err
		}
		all = append(all, s)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	results := make([]measure.Result, len(all))
	for i, s := range all {
		wg.Go(func() { results[i], errs[i] = s.run(ctx) })
	}
	wg.Wait()
	var m Measured
	m.Begun = all[0].begun
	for i, s := range all {
		m.Class[s.class] = s.result(l)
		m.Lag = max(m.Lag, results[i].SendLag.P99)
		for _, why := range results[i].Invalid {
			m.Invalid = append(m.Invalid, fmt.Sprintf("%v: %s", s.class, why))
		}
	}
	return m, errors.Join(errs...)
}

// sender sends the requests of one class.
type sender struct {
	load    Load
	class   work.Class
	servers []string
	next    []string // the port that each server calls
	client  *http.Client
	loop    *openloop.Generator
	begun   time.Time

	mu      sync.Mutex
	samples []sample
}

type sample struct {
	at, took time.Duration
	kind     measure.Kind
}

func newSender(l Load, class work.Class, p openloop.Profile, servers, exits []string, mean time.Duration, client *http.Client) (*sender, error) {
	s := &sender{load: l, class: class, servers: servers, client: client,
		samples: make([]sample, 0, int(p.Requests()*1.5)+1000)}
	for i := range servers {
		next := servers[(i+1)%len(servers)]
		if len(exits) > 0 {
			next = exits[i]
		}
		_, port, err := net.SplitHostPort(next)
		if err != nil {
			return nil, fmt.Errorf("chains: server: %w", err)
		}
		s.next = append(s.next, port)
	}
	arrivals, err := openloop.Poisson(p, l.Seed<<1|uint64(class&1))
	if err != nil {
		return nil, err
	}
	// A lag of more than half a service time would be seen in the figures.
	s.loop, err = openloop.New(openloop.Config{Arrivals: arrivals, Send: s.send, SLO: 5 * mean, Drain: longestWait})
	return s, err
}

func (s *sender) run(ctx context.Context) (measure.Result, error) {
	s.begun = time.Now()
	return s.loop.Run(ctx)
}

// send performs one request as an application at the edge would, which knows what
// it asks for and how long its user waits, and nothing of who is in between.
func (s *sender) send(ctx context.Context, i int, intended time.Time) measure.Outcome {
	random := rand.New(rand.NewPCG(s.load.Seed, uint64(s.class)<<48|uint64(i)))
	first := random.IntN(len(s.servers))
	size := s.load.Least + random.IntN(s.load.Most-s.load.Least+1)
	patience := longestWait
	if mean := s.load.Patience[s.class]; mean > 0 {
		patience = time.Duration(math.Min(random.ExpFloat64()*float64(mean), float64(longestWait)))
	}
	function, route := "page", []string(nil)
	header := http.Header{"User-Agent": {"generator"}, "Traceparent": {trace(random.Uint64(), random.Uint64())}}
	if s.class == work.Interactive {
		function = "order"
		for hop := range len(s.next) - 1 {
			route = append(route, s.next[(first+hop)%len(s.next)])
		}
		if !s.load.Silent {
			header["Baggage"] = []string{"spillgate.class=interactive"}
		}
	}
	ctx, cancel := context.WithDeadline(ctx, intended.Add(patience))
	defer cancel()
	kind, reason := measure.Served, ""
	status, err := s.get(ctx, stepURL(s.servers[first], function, size, route), header)
	switch {
	case err != nil && ctx.Err() != nil:
		kind = measure.TimedOut
	case err != nil:
		kind, reason = measure.Failed, "transport"
	case status == http.StatusOK:
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		kind, reason = measure.Refused, strconv.Itoa(status)
	default:
		kind, reason = measure.Failed, strconv.Itoa(status)
	}
	took := time.Since(intended)
	s.mu.Lock()
	s.samples = append(s.samples, sample{at: intended.Sub(s.begun), took: took, kind: kind})
	s.mu.Unlock()
	return measure.Outcome{Kind: kind, Reason: reason}
}

func (s *sender) get(ctx context.Context, url string, header http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// result sums the samples up.
func (s *sender) result(l Load) ClassResult {
	var c ClassResult
	window := l.window()
	c.Series = make([]Stretch, (l.duration()+window-1)/window)
	var times []time.Duration
	var sum time.Duration
	sums := make([]time.Duration, len(c.Series))
	for _, x := range s.samples {
		k := min(int(max(x.at, 0)/window), len(c.Series)-1)
		w := &c.Series[k]
		w.Offered++
		switch x.kind {
		case measure.Served:
			w.Served++
			sums[k] += x.took
		case measure.TimedOut:
			w.Abandoned++
		}
		if x.at < l.From {
			continue
		}
		c.Offered++
		switch x.kind {
		case measure.Served:
			c.Served++
			sum += x.took
			times = append(times, x.took)
		case measure.TimedOut:
			c.Abandoned++
		case measure.Refused:
			c.Refused++
		default:
			c.Failed++
		}
	}
	for k := range c.Series {
		if n := c.Series[k].Served; n > 0 {
			c.Series[k].Mean = sums[k] / time.Duration(n)
		}
	}
	if len(times) == 0 {
		return c
	}
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[min(int(q*float64(len(times))), len(times)-1)] }
	c.Mean, c.P50, c.P95, c.P99 = sum/time.Duration(len(times)), at(0.5), at(0.95), at(0.99)
	return c
}
