package front

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Proxies returns the experiment that puts the proxy beside those of others. The bars are
// beside the contender that is called envoy, if it takes part.
func Proxies(third ...Contender) experiment.Experiment {
	return experiment.Experiment{
		Name:  "front/proxies",
		Title: "what a request and an idle connection cost the proxy, beside others",
		About: `Each proxy has a processor to itself, in front of a server that answers 100 bytes at once. Throughput is the inverse
of the processor time that a request costs, with 32 connections that ask all the time. p99 is that at half of the least
throughput of all, or of what the clients do without a proxy, with ` + strconv.Itoa(kept) + ` connections. Memory is what the resident set grows by, for each of thousands of idle connections: that never said
anything, and that had an answer, five seconds later. Spillgate learns its slots and has an objective of 1 s. Medians of the repeats.`,
		Live: true,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			d := duel{contenders: append(append([]Contender{{Name: ours, order: &proxyOrder{Objective: time.Second}}}, nginx(0)...), third...), length: 4 * time.Second, idle: 8000, repeats: 3}
			if o.Quick {
				d.length, d.idle, d.repeats = 2*time.Second, 3000, 1
			}
			return d.run(ctx, o)
		},
	}
}

// duel is how contenders are measured.
type duel struct {
	contenders []Contender
	length     time.Duration
	idle       int
	repeats    int
	back       int // the process of the server
}

// figures are those of one contender.
type figures struct {
	throughput, p99, silent, spoken []float64 // requests/s, ms, kB, kB
	disturbed                       []string
}

func (d *duel) run(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	if err := limitFiles(0); err != nil {
		return nil, err
	}
	back, err := role.Start(ctx, order{Lean: true}, proc.Spec{Name: "server", CPUs: []int{1}})
	if err != nil {
		return nil, err
	}
	defer back.Stop(0)
	d.back = back.Pid()

	direct := float64(load(ctx, back.Addr(), d.length)) / d.length.Seconds()
	all := make([]figures, len(d.contenders))
	for n := range d.repeats {
		for i := range d.contenders {
			o.Step(2*n*len(all)+i, 2*d.repeats*len(all), d.contenders[i].Name)
			if err := with(ctx, &d.contenders[i], back.Addr(), func(child *proc.Child, addr string) error {
				return all[i].cost(ctx, d, child, addr)
			}); err != nil {
				return nil, err
			}
			if err := all[i].memory(ctx, d, &d.contenders[i], back.Addr()); err != nil {
				return nil, fmt.Errorf("%s: %w", d.contenders[i].Name, err)
			}
		}
		rate := direct / 2 // clients that are late would pass for a slow proxy
		for i := range all {
			rate = min(rate, all[i].throughput[n]/2)
		}
		for i := range d.contenders {
			o.Step((2*n+1)*len(all)+i, 2*d.repeats*len(all), d.contenders[i].Name)
			if err := with(ctx, &d.contenders[i], back.Addr(), func(child *proc.Child, addr string) error {
				return all[i].latency(ctx, d, child, addr, rate, o.Seed+uint64(n))
			}); err != nil {
				return nil, err
			}
		}
	}
	return d.judge(all, o.Quick), nil
}

// with runs f with a fresh process of the contender.
func with(ctx context.Context, c *Contender, upstream string, f func(child *proc.Child, addr string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "front")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	child, addr, err := c.start(ctx, dir, upstream)
	if err == nil {
		defer child.Stop(0)
		err = f(child, addr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return ctx.Err()
}

// busy is how many connections ask all the time.
const busy = 32

// cost measures what a request costs.
func (f *figures) cost(ctx context.Context, d *duel, child *proc.Child, addr string) error {
	load(ctx, addr, d.length/4)
	before := machine.Used(child.Pid())
	done := load(ctx, addr, d.length)
	used := machine.Used(child.Pid()) - before
	if done == 0 || used == 0 {
		return fmt.Errorf("%d requests took %v of processor time, expected more", done, used)
	}
	f.throughput = append(f.throughput, float64(done)/used.Seconds())
	return nil
}

// load asks on busy connections for a time, and returns how many requests were served.
func load(ctx context.Context, addr string, length time.Duration) int64 {
	ctx, cancel := context.WithTimeout(ctx, length+patience)
	defer cancel()
	client := newLean(ctx, addr, busy)
	var done atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(length)
	for range busy {
		wg.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if status, err := client.get(); err == nil && status == http.StatusOK {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return done.Load()
}

// memory measures what idle connections take, those of each kind in a process of their own:
// what others left behind would hide it.
func (f *figures) memory(ctx context.Context, d *duel, c *Contender, upstream string) error {
	for _, kind := range []struct {
		answered bool
		to       *[]float64
	}{{false, &f.silent}, {true, &f.spoken}} {
		if err := with(ctx, c, upstream, func(child *proc.Child, addr string) error {
			text := "GET / HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
			if _, err := idle(ctx, child, addr, busy, text); err != nil { // what the first ones need once
				return err
			}
			if !kind.answered {
				text = ""
			}
			grown, err := idle(ctx, child, addr, d.idle, text)
			*kind.to = append(*kind.to, grown/1e3)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// idle opens n connections, says text on each and reads what comes, and returns what the
// resident set of the process grew by for each, in bytes.
func idle(ctx context.Context, child *proc.Child, addr string, n int, text string) (float64, error) {
	before, err := machine.Resident(child.Pid())
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &Attack{Target: addr}
	for range n {
		c, err := a.dial(ctx)
		if err != nil {
			return 0, err
		}
		if text == "" {
			continue
		}
		if _, err := c.Write([]byte(text)); err != nil {
			return 0, err
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return 0, err
		}
	}
	time.Sleep(settle) // the last ones are accepted
	after, err := machine.Resident(child.Pid())
	return (after - before) / float64(n), err
}

// settle is how long connections are left alone before memory is looked at: idle for long, to
// a proxy that does something about it.
const settle = 5 * time.Second

// mostLate is what part of the p99 the generator may have been late at its p99 in a run that counts: else the p99 may
// be its own.
const mostLate = 0.5

// kept is how many connections the requests of the p99 share. One that finds all in use waits in the client, from the
// instant at which it was due. Without a bound each stall opened thousands, which cost every proxy more than the
// requests do, and half of the load was too much for two of three.
const kept = 4 * busy

// latency measures the p99 at a rate in requests per second.
func (f *figures) latency(ctx context.Context, d *duel, child *proc.Child, addr string, rate float64, seed uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := newLean(ctx, addr, kept)
	ask := func(load openloop.Profile) (measure.Result, error) {
		arrivals, err := openloop.Poisson(load, seed)
		if err != nil {
			return measure.Result{}, err
		}
		g, err := openloop.New(openloop.Config{Arrivals: arrivals, SLO: patience, Drain: time.Second, Send: func(context.Context, int, time.Time) measure.Outcome {
			switch status, err := client.get(); {
			case err != nil:
				return measure.Outcome{Kind: measure.Failed}
			case status != http.StatusOK:
				return measure.Outcome{Kind: measure.Refused}
			}
			return measure.Outcome{Kind: measure.Served}
		}})
		if err != nil {
			return measure.Result{}, err
		}
		return g.Run(ctx)
	}
	if _, err := ask(openloop.Steady(rate, d.length/4)); err != nil { // connections are made, on both sides of the proxy
		return err
	}
	out := &outcome{}
	used := func() time.Duration { return machine.Own() + machine.Used(child.Pid()) + machine.Used(d.back) }
	var result measure.Result
	err := play{}.watch(out, used, "in a run", func() (err error) {
		result, err = ask(openloop.Steady(rate, d.length))
		return err
	})
	if err != nil {
		return err
	}
	if late := result.SendLag.P99; late.Seconds() > mostLate*result.Total.Latency.P99.Seconds() {
		out.disturbed = append(out.disturbed, fmt.Sprintf("the generator was %v late in a run", late))
	}
	f.disturbed = append(f.disturbed, out.disturbed...)
	p99 := result.Total.Latency.P99.Seconds() * 1e3
	if float64(result.Total.Served) < 0.99*float64(result.Total.Offered) {
		p99 = math.Inf(1) // one in a hundred was never served
	}
	f.p99 = append(f.p99, p99)
	return nil
}

func (d *duel) judge(all []figures, quick bool) *experiment.Result {
	r := &experiment.Result{Quick: quick}
	t := &table.Table{Title: "Reverse proxies on one processor", Columns: []table.Column{{Name: "proxy"}, {Name: "throughput", Unit: "requests/s", Format: "%.0f"},
		{Name: "p99 at half load", Unit: "ms", Format: "%.2f"}, {Name: "idle connection, silent", Unit: "kB", Format: "%.1f"}, {Name: "after an answer", Unit: "kB", Format: "%.1f"}},
		Note: runtime.Version()}
	for i, c := range d.contenders {
		f := &all[i]
		t.Add(c.Name, median(f.throughput), median(f.p99), median(f.silent), median(f.spoken))
	}
	r.Table = append(r.Table, t)
	if i := slices.IndexFunc(d.contenders, func(c Contender) bool { return strings.HasPrefix(c.Name, "envoy") }); i >= 0 {
		own, his := &all[0], &all[i]
		r.On(experiment.Machine{Ours: own.disturbed, Theirs: his.disturbed}, func() {
			r.Floor("throughput by Envoy's", "", 1, 0.1, median(own.throughput)/median(his.throughput))
			r.Ceiling("p99 at half load by Envoy's", "", 1.2, 0.3, median(own.p99)/median(his.p99))
		})
		r.Ceiling("memory of a silent connection by Envoy's", "", 1, 0.1, median(own.silent)/median(his.silent))
		r.Ceiling("memory of an idle connection by Envoy's", "", 1, 0.1, median(own.spoken)/median(his.spoken))
	}
	return r
}
