package rates

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// graph is a call graph of processes through which requests flow like water: in
// each period a process lets in what its rates allow, refuses the rest, works on
// what it let in through one queue, and calls others when the work is done. Parts of
// requests are counted, so that there is no noise and rates can be compared with
// numbers worked out by hand.
type graph struct {
	t      *testing.T
	now    mono.Time
	period time.Duration
	procs  []*proc // callers before those they call
}

type proc struct {
	*Adapter
	name, service string
	capacity      float64
	target        time.Duration
	credits       bool
	flows         map[string]*stage
	order         []string
	queue         float64 // seconds of work
	in            map[string]map[string]float64
	claims        map[string]map[string]float64
}

// stage is one workflow's part at one process.
type stage struct {
	offered float64 // requests/s from outside
	cost    float64 // seconds a request
	calls   []edge
	queued  float64 // seconds of this workflow's work in the queue
	let     float64 // requests let in in the last period
	done    float64
	refused float64
}

type edge struct {
	to    *proc
	times float64
}

func newGraph(t *testing.T) *graph { return &graph{t: t, period: 100 * time.Millisecond} }

func (g *graph) add(service, name string, capacity float64, cfg Config) *proc {
	cfg.Service, cfg.Process = service, name
	cfg.Resources = []Resource{{Name: "workers", Capacity: capacity}}
	a, err := New(g.now, cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	p := &proc{Adapter: a, name: name, service: service, capacity: capacity, target: 10 * time.Millisecond, flows: map[string]*stage{}}
	g.procs = append(g.procs, p)
	return p
}

// handle says what a request of a workflow does at p.
func (p *proc) handle(workflow string, cost float64, calls ...edge) *stage {
	s := &stage{cost: cost, calls: calls}
	p.flows[workflow] = s
	p.order = append(p.order, workflow)
	return s
}

// step runs one period: requests go down, rates come back, everyone adapts.
func (g *graph) step() {
	dt := g.period.Seconds()
	mid := g.now.Add(g.period / 2)
	for _, p := range g.procs {
		backlog := 0.0
		for _, name := range p.order {
			s := p.flows[name]
			w := p.Workflow(mid, name)
			count := s.offered * dt
			if count > 0 {
				p.arrive(mid, w, 0, count, 0)
			}
			for _, up := range g.procs {
				if n := p.in[name][up.name]; n > 0 {
					p.arrive(mid, w, p.Peer(mid, up.service, up.name), n, p.claims[name][up.name])
					count += n
				}
			}
			s.let = math.Min(count, p.Rate(w)*dt)
			s.refused = count - s.let
			s.queued += s.let * s.cost
			backlog += s.queued
		}
		served := math.Min(backlog, p.capacity*dt)
		for _, name := range p.order {
			s := p.flows[name]
			if s.queued == 0 {
				continue
			}
			w := p.Workflow(mid, name)
			part := s.queued * served / backlog
			s.queued -= part
			s.done = part / s.cost
			p.OnUse(w, 0, time.Duration(part*1e9))
			p.finish(w, s.done)
			for _, e := range s.calls {
				p.call(mid, w, e.to, s.done*e.times)
				e.to.send(name, p.name, s.done*e.times, p.Demand(w, p.Peer(mid, e.to.service, e.to.name)))
			}
		}
		p.queue = backlog - served
		clear(p.in)
	}
	g.now = g.now.Add(g.period)
	for _, p := range g.procs {
		for _, name := range p.order {
			for _, e := range p.flows[name].calls {
				if p.flows[name].done > 0 {
					rate := e.to.Announce(e.to.Workflow(g.now, name), e.to.Peer(g.now, p.service, p.name))
					p.OnRate(g.now, p.Workflow(g.now, name), p.Peer(g.now, e.to.service, e.to.name), rate)
				}
			}
		}
	}
	for _, p := range g.procs {
		p.OnWake(g.now, p.signals())
	}
}

func (p *proc) delay() time.Duration { return time.Duration(p.queue / p.capacity * 1e9) }

func (p *proc) signals() Signals {
	s := Signals{Credits: p.credits, Resources: []Pressure{{Delay: p.delay(), Target: p.target}}}
	if p.credits && p.delay() > 0 {
		s.Bound = 1
	}
	return s
}

func (p *proc) send(workflow, from string, count, claim float64) {
	if p.in == nil {
		p.in, p.claims = map[string]map[string]float64{}, map[string]map[string]float64{}
	}
	if p.in[workflow] == nil {
		p.in[workflow] = map[string]float64{}
	}
	if p.claims[workflow] == nil {
		p.claims[workflow] = map[string]float64{}
	}
	p.in[workflow][from] += count
	p.claims[workflow][from] = claim
}

// arrive, call and finish are the events of so many requests, which need not be
// whole, at once.
func (p *proc) arrive(now mono.Time, w Workflow, from Peer, count, claim float64) {
	p.OnArrival(now, &Request{Workflow: w, From: from, Demand: claim, Deadline: mono.Never})
	f := p.flow(w)
	i, _ := p.peers.at(uint32(from))
	f.arrived += count - 1
	f.source(i).arrived += count - 1
}

func (p *proc) call(now mono.Time, w Workflow, to *proc, count float64) {
	if count == 0 {
		return
	}
	peer := p.Peer(now, to.service, to.name)
	p.OnCall(now, &Request{Workflow: w}, peer, 0)
	l := p.flow(w).link(place(uint32(peer)))
	l.sent += count - 1
	l.calls += count
}

func (p *proc) finish(w Workflow, count float64) {
	f := p.flow(w)
	f.known = true
	f.ended += count
	f.completed += count
	f.passed += count
}

func (p *proc) rate(workflow string) float64 { return p.Rate(p.Workflow(0, workflow)) }

// TestRateOfTheWorkedExample solves the example of the paper (§4.1.2): a1 calls
// b1 twice, b1 calls c1 or c2, each of which calls e1 and e2 twice. w1 loads e1
// and e2 with 400/s each; at e2, where two others want 100/s each, 300/s of that
// fit. The numbers follow by hand: c1 and c2 hear 200 and 150, that is 100 and
// 75 requests.
func TestRateOfTheWorkedExample(t *testing.T) {
	for _, tt := range []struct{ q, sigma, drops, spare float64 }{
		{-1, 75, 0, 100}, {0.25, 81.25, 25, 75}, {0.5, 87.5, 50, 50}, {0.75, 93.75, 75, 25}, {1, 100, 100, 0},
	} {
		t.Run(fmt.Sprint("q=", math.Max(tt.q, 0)), func(t *testing.T) {
			g := newGraph(t)
			cfg := Config{Policy: MaxMinFair, Headroom: -1, Quantile: tt.q}
			a1 := g.add("a", "a1", 500, cfg)
			b1 := g.add("b", "b1", 500, cfg)
			c1, c2 := g.add("c", "c1", 500, cfg), g.add("c", "c2", 500, cfg)
			e1, e2 := g.add("e", "e1", 500, cfg), g.add("e", "e2", 500, cfg)
			a1.handle("w1", 1, edge{b1, 2}).offered = 100
			b1.handle("w1", 1, edge{c1, 0.5}, edge{c2, 0.5})
			for _, c := range []*proc{c1, c2} {
				c.handle("w1", 1, edge{e1, 2}, edge{e2, 2})
			}
			for _, e := range []*proc{e1, e2} {
				e.handle("w1", 1)
				e.handle("w2", 1).offered = 100
			}
			e2.handle("w3", 1).offered = 100
			for range 200 {
				g.step()
			}
			near := func(what string, got, want float64) {
				t.Helper()
				if math.Abs(got-want) > 0.05 {
					t.Errorf("%s = %.3f, want %.3f", what, got, want)
				}
			}
			sigma := a1.rate("w1")
			t.Logf("sigma at a1 for q = %v: %.2f/s", math.Max(tt.q, 0), sigma)
			near("sigma at a1", sigma, tt.sigma)
			near("drops at e2", e2.flows["w1"].refused*10, tt.drops)
			near("spare at e1", 500-(e1.flows["w1"].let+e1.flows["w2"].let)*10, tt.spare)
			for _, w := range []string{"w2", "w3"} {
				near("drops of "+w, e2.flows[w].refused*10, 0)
			}
		})
	}
}
