package bed

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// punctual workers need no machine: in a bubble of synctest a run takes no time, and what
// it shows is the doing of its load alone.
var punctual = pace{
	finish: func(start time.Time, takes time.Duration) time.Time { return start.Add(takes) },
	until:  func(t time.Time) error { time.Sleep(time.Until(t)); return nil },
	close:  func() {},
}

// ring is a world of servers of 10 ms that singles and, from an instant to another, chains
// through all servers each fill to 40 %.
func ring(begins, ends, length time.Duration) *world.World {
	const servers = 4
	w := &world.World{Objective: 30 * time.Second, Length: length, Clients: []world.Group{
		{Name: "chains", Class: work.Interactive, Load: world.Load{Steps: []world.Rate{{}, {At: begins, PerSecond: 40}, {At: ends}}}},
		{Name: "singles", Load: world.Load{Steps: []world.Rate{{PerSecond: 40 * servers}}}}}}
	for i := range servers {
		name, next := fmt.Sprint(i), fmt.Sprint((i+1)%servers)
		s := world.Service{Name: name, Workers: 1, Async: true, Methods: []world.Method{{Name: "0", Steps: []world.Step{wait(10 * ms)}}}}
		for left := 1; left < servers; left++ {
			call := world.Step{Call: []world.Target{{Service: next, Method: fmt.Sprint(left - 1)}}}
			s.Methods = append(s.Methods, world.Method{Name: fmt.Sprint(left), Steps: []world.Step{wait(10 * ms), call}})
		}
		w.Services = append(w.Services, s)
		for g, left := range []int{servers - 1, 0} {
			w.Clients[g].Ask = append(w.Clients[g].Ask, world.Ask{Target: world.Target{Service: name, Method: fmt.Sprint(left)}})
		}
	}
	return w
}

// direct calls a process of the same bubble.
type direct struct{ to *process }

func (d direct) call(ctx context.Context, method string, id uint64) error {
	for i := range d.to.service.Methods {
		if m := &d.to.service.Methods[i]; m.Name == method {
			return d.to.serve(ctx, m, id)
		}
	}
	return fmt.Errorf("no method %s", method)
}
func (direct) connect(context.Context) error { return nil }
func (direct) close()                        {}

// playPunctually plays a world of shared workers in a bubble, and returns the mean weight at
// the end of each second and what all waited.
func playPunctually(t *testing.T, w *world.World, seed uint64) (weights []float64, law Law) {
	p, err := newPlan(w)
	if err != nil {
		t.Fatal(err)
	}
	callers := map[string]caller{}
	var all []*process
	for i := range p.Services {
		o := order{Service: p.Services[i].Name, Replica: 1}
		x := &process{plan: p, service: &p.Services[i], callers: callers}
		if x.crew, err = newCrew(x.service, Order{Kind: Shared, Weight: 0.5, InTurn: true}, mix(seed^mix(uint64(o.number(p)))), punctual); err != nil {
			t.Fatal(err)
		}
		defer x.crew.close()
		callers[x.service.Name], all = direct{x}, append(all, x)
	}
	begin := time.Now()
	var requests sync.WaitGroup
	for i := range p.Clients {
		g := &group{Group: &p.Clients[i], plan: p, seed: mix(seed ^ mix(uint64(i))), begin: begin, tally: newTally(p, &p.Clients[i]),
			weights: float64(len(p.Clients[i].Ask)), conns: []*member{{callers: callers}}}
		arrivals, err := p.arrivals(i, g.seed)
		if err != nil {
			t.Fatal(err)
		}
		ctx := live.WithTags(t.Context(), wire.Tags{Class: g.Class})
		requests.Go(func() {
			for k := 0; ; k++ {
				at, ok := arrivals.Next()
				if !ok {
					return
				}
				time.Sleep(time.Until(begin.Add(at)))
				requests.Go(func() { g.request(ctx, k, k, begin.Add(at)) })
			}
		})
	}
	for range int(w.Length / time.Second) {
		time.Sleep(time.Second)
		sum := 0.0
		for _, x := range all {
			sum += x.crew.steer.weight()
		}
		weights = append(weights, sum/float64(len(all)))
	}
	requests.Wait()
	for _, x := range all {
		law.Add(x.crew.look())
	}
	return weights, law
}

// Without delays of a machine, weights settle within ten periods of the beginning of chains, go
// not far beyond what they settle at, and no worker idles while somebody waits. The mean is of
// two seeds: the servers of one see the same chains.
func TestSharesSettle(t *testing.T) {
	const begins, ends, length = 15, 55, 56
	mean := make([]float64, length)
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			weights, law := playPunctually(t, ring(begins*time.Second, ends*time.Second, length*time.Second), seed)
			for i, w := range weights {
				mean[i] += w / 2
			}
			if wasted, ok := law.Distance(); !ok || math.Abs(wasted) > 1e-6 || law.Class[work.Interactive].Waited >= law.Class[work.Interactive].FIFO {
				t.Errorf("seed %d: %+v, wasted %g, expected nothing, and that chains wait less than in order of arrival", seed, law, wasted)
			}
		})
	}
	final := mean[ends-1]
	for i, w := range mean[begins:ends] {
		if off := w/final - 1; off > 0.2 || i >= 10 && math.Abs(off) > 0.1 {
			t.Errorf("%d s after chains began, the weight is %.3f, finally %.3f: %.3f", i+1, w, final, mean)
			break
		}
	}
	if mean[begins-1] != 0.5 || final < 0.55 || final > 0.7 {
		t.Errorf("the weight goes from %.3f to %.3f, expected from 0.5 to some 0.6", mean[begins-1], final)
	}
}
