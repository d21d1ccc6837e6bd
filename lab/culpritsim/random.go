package culpritsim

import (
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

// randomApp draws an application: resources, streams of requests that use them
// below their capacity, and guests that harm nobody.
type randomApp struct {
	chance *rand.Rand
	cfg    hold.Config
	// shared tells which resources are only ever held together.
	shared []bool
}

func newRandomApp(seed uint64) *randomApp {
	a := &randomApp{chance: sim.Chance(seed, 78, 0)}
	a.cfg = hold.Config{Seed: seed, Every: time.Duration(50+a.chance.IntN(51)) * ms, Delay: time.Duration(1+a.chance.IntN(5)) * ms}
	for range 1 + a.chance.IntN(4) {
		a.addResource()
	}
	for k := range 1 + a.chance.IntN(3) {
		a.addLoad(uint64(k + 1))
	}
	return a
}

func (a *randomApp) addResource() {
	name := string(rune('a' + len(a.cfg.Resources)))
	a.shared = append(a.shared, a.chance.IntN(2) == 0)
	switch a.chance.IntN(5) {
	case 0, 1:
		a.cfg.Resources = append(a.cfg.Resources, lock(name))
	case 2:
		a.cfg.Resources = append(a.cfg.Resources, slots(name, float64(2+a.chance.IntN(15))))
	case 3:
		a.cfg.Resources = append(a.cfg.Resources, system(name, float64(1+a.chance.IntN(4))))
	default:
		pages := 1000 + a.chance.IntN(3000)
		a.cfg.Resources = append(a.cfg.Resources, hold.Resource{Name: name, Kind: culprit.Memory, Pages: pages, Hot: pages * (70 + a.chance.IntN(25)) / 100, Miss: time.Duration(1+a.chance.IntN(3)) * ms})
	}
}

// upTo returns a random duration of at least a tenth of d.
func (a *randomApp) upTo(d time.Duration) time.Duration {
	return d/10 + time.Duration(a.chance.Float64()*0.9*float64(d))
}

// addLoad adds a stream of requests, or clients, that keep each resource below 60 %.
func (a *randomApp) addLoad(kind uint64) {
	p := hold.Program{Kind: kind, Ops: []hold.Op{run(a.upTo(5 * ms))}}
	most := 400.0 // requests/s
	streams := 3.0
	for r := range a.cfg.Resources {
		if a.chance.IntN(3) == 0 {
			continue
		}
		d := a.upTo(8 * ms)
		bound := 1e9
		switch res := &a.cfg.Resources[r]; res.Kind {
		case culprit.Lock:
			p.Ops = append(p.Ops, hold.Op{Do: hold.Acquire, Resource: r, Shared: a.shared[r]}, run(d), give(r))
			if !a.shared[r] {
				bound = 0.5 / d.Seconds()
			}
		case culprit.Queue:
			p.Ops = append(p.Ops, take(r), run(d), give(r))
			bound = 0.6 * res.Slots / d.Seconds()
		case culprit.System:
			p.Ops = append(p.Ops, burn(r, d))
			bound = 0.6 * res.Slots / d.Seconds()
		case culprit.Memory:
			p.Ops = append(p.Ops, touch(r, 5+a.chance.IntN(20), 64, d/4))
		}
		most = min(most, bound/streams)
	}
	if a.chance.IntN(3) == 0 {
		n := 2 + a.chance.IntN(12)
		a.cfg.Loads = append(a.cfg.Loads, clients(float64(n), time.Duration(float64(n)/most*float64(time.Second)), p))
		return
	}
	a.cfg.Loads = append(a.cfg.Loads, open(most*(0.3+0.7*a.chance.Float64()), p))
}

// crowd adds many sessions that mostly do other work and take part in a resource that
// is only shared, or in none: most of an application's tasks are such.
func (a *randomApp) crowd() {
	p := hold.Program{Kind: 10, Ops: []hold.Op{run(a.upTo(time.Second))}}
	for r := range a.cfg.Resources {
		if a.cfg.Resources[r].Kind == culprit.Lock && a.shared[r] {
			p.Ops = append(p.Ops, join(r), run(5*ms), give(r), run(time.Second))
		}
	}
	a.cfg.Guests = append(a.cfg.Guests, a.sessions(60+a.chance.IntN(120), p)...)
}

// sessions returns n guests that do p again and again.
func (a *randomApp) sessions(n int, p hold.Program) []hold.Guest {
	var all []hold.Guest
	for range n {
		all = append(all, hold.Guest{Program: p, At: a.upTo(time.Second), Again: a.upTo(100 * ms), Background: true, Steps: cancellable})
	}
	return all
}

// calm adds guests that harm nobody: readers of locks that are only shared, jobs that
// take a little of a system, tasks that only run.
func (a *randomApp) calm(until time.Duration) {
	for range a.chance.IntN(4) {
		p := hold.Program{Kind: 20 + uint64(a.chance.IntN(4)), Ops: []hold.Op{run(a.upTo(20 * time.Second))}, Known: a.chance.IntN(2) == 0}
		for r := range a.cfg.Resources {
			switch res := &a.cfg.Resources[r]; {
			case res.Kind == culprit.Lock && a.shared[r]:
				p.Ops = append([]hold.Op{join(r)}, p.Ops...)
			case res.Kind == culprit.System && a.chance.IntN(2) == 0:
				p.Ops = append([]hold.Op{spend(r, a.upTo(20*ms))}, p.Ops...)
			}
		}
		a.cfg.Guests = append(a.cfg.Guests, hold.Guest{Program: p, At: a.upTo(until), Again: a.upTo(5 * time.Second), Background: a.chance.IntN(2) == 0, Steps: cancellable})
	}
}

// busy gives the open streams bursts of up to three times the load and idle spells.
func (a *randomApp) busy(until time.Duration) {
	for i := range a.cfg.Loads {
		l := &a.cfg.Loads[i]
		if l.Clients > 0 {
			continue
		}
		base := l.Rate[0].Rate
		for at := 5 * time.Second; at < until; at += a.upTo(10 * time.Second) {
			factor := 1.0
			switch a.chance.IntN(4) {
			case 0:
				factor = 1 + 2*a.chance.Float64()
			case 1:
				factor = 0
			}
			l.Rate = append(l.Rate, hold.Step{From: at, Rate: base * factor})
		}
	}
}

// hog adds one culprit, on a resource that the foreground uses, and reports whether
// there is one.
func (a *randomApp) hog(at time.Duration) bool {
	var used []int
	for r := range a.cfg.Resources {
		for i := range a.cfg.Loads {
			for _, o := range a.cfg.Loads[i].Program.Ops {
				if o.Do != hold.Run && o.Resource == r && (len(used) == 0 || used[len(used)-1] != r) {
					used = append(used, r)
				}
			}
		}
	}
	if len(used) == 0 {
		return false
	}
	r := used[a.chance.IntN(len(used))]
	length := 20*time.Second + a.upTo(40*time.Second)
	g := hold.Guest{At: at, Steps: cancellable, Culprit: true, Target: true, Background: a.chance.IntN(2) == 0, Program: hold.Program{Kind: 30, Known: a.chance.IntN(2) == 0}}
	copies := 1
	switch res := &a.cfg.Resources[r]; res.Kind {
	case culprit.Lock:
		seize := take(r)
		seize.Shared = !a.shared[r] && a.chance.IntN(2) == 0 // a reader that starves writers
		switch a.chance.IntN(4) {
		case 0: // idle in its transaction
			g.Program.Ops = []hold.Op{seize, steady(200 * ms), rest(length)}
		case 1: // one short task after the other
			g.Program.Ops, g.Again = []hold.Op{seize, steady(400 * ms)}, 20*ms
		default:
			g.Program.Ops = []hold.Op{seize, steady(length)}
		}
	case culprit.Queue:
		g.Program.Ops = []hold.Op{take(r), steady(length)}
		copies = int(res.Slots)
	case culprit.System:
		g.Program.Ops = []hold.Op{spend(r, 10*ms)}
		g.Program.Times = int(length / (10 * ms))
		g.Program.Weight = res.Slots * float64(8+a.chance.IntN(16))
	case culprit.Memory:
		g.Program.Ops = []hold.Op{touch(r, 64, 64, 5*ms)}
		g.Program.Times = int(length / (5 * ms))
	}
	for range copies {
		a.cfg.Guests = append(a.cfg.Guests, g)
	}
	return true
}
