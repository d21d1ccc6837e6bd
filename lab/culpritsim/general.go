package culpritsim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim/hold"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// long is how long a culprit of the general cases holds what it holds.
func (t *trial) long() time.Duration { return time.Duration(20 * t.size * float64(time.Second)) }

// guest is a foreground request that is a culprit.
func (t *trial) guest(p hold.Program) hold.Guest {
	return hold.Guest{Program: p, At: t.onset, Steps: cancellable, Culprit: true, Target: true}
}

// general are the cases that a Go service behind a gate meets, none of them of the paper.
func general() []scene {
	return append([]scene{
		{"pool", "requests that keep their connections exhaust a pool", false, 0, func(t trial) hold.Config {
			cfg := hold.Config{Resources: []hold.Resource{slots("connections", 10)},
				Loads: []hold.Load{open(200*t.load, program(victims, take(0), run(5*ms), give(0)))}}
			for range 10 {
				cfg.Guests = append(cfg.Guests, t.guest(program(heavy, take(0), steady(t.long()))))
			}
			return cfg
		}},
		{"half", "a request keeps half of a pool, of which the others need three fifths", false, 0, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{slots("connections", 8)},
				Loads:  []hold.Load{open(400, program(victims, take(0), run(12*ms), give(0)))},
				Guests: []hold.Guest{t.guest(program(heavy, take(0), take(0), take(0), take(0), steady(t.long())))}}
		}},
		{"starved", "a long reader starves writers", false, 0, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{lock("map")},
				Loads:  []hold.Load{clients(4*t.load, 20*ms, program(victims, take(0), run(2*ms), give(0))), open(100*t.load, program(readers, join(0), run(2*ms), give(0)))},
				Guests: []hold.Guest{t.guest(program(heavy, join(0), steady(t.long())))}}
		}},
		{"leak", "a job leaks slowly into a cache", true, 0, func(t trial) hold.Config {
			leak := hold.Program{Kind: heavy, Ops: []hold.Op{touch(0, 8, 8, 10*ms)}, Times: int(4000 * t.size)}
			return hold.Config{Resources: []hold.Resource{{Name: "cache", Kind: culprit.Memory, Pages: 2000, Hot: 1800, Miss: ms}},
				Loads:  []hold.Load{open(150*t.load, program(victims, touch(0, 30, 30, 3*ms), run(4*ms)))},
				Guests: []hold.Guest{t.guest(leak)}}
		}},
		{"two", "two culprits at once, each on a lock of its own", false, 0, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{lock("orders"), lock("stock")},
				Loads:  []hold.Load{open(60*t.load, program(victims, take(0), run(3*ms), give(0))), open(60*t.load, program(readers, take(1), run(3*ms), give(1)))},
				Guests: []hold.Guest{t.guest(program(heavy, take(0), steady(t.long()))), t.guest(program(helper, take(1), steady(t.long())))}}
		}},
		{"kinds", "a culprit comes back under another kind", false, 0, func(t trial) hold.Config {
			cfg := hold.Config{Resources: []hold.Resource{lock("table")}, Loads: []hold.Load{open(100*t.load, program(victims, take(0), run(3*ms), give(0)))}}
			for k := range 4 {
				g := t.guest(program(40+uint64(k), take(0), steady(t.long())))
				g.At += time.Duration(2*k) * time.Second
				cfg.Guests = append(cfg.Guests, g)
			}
			return cfg
		}},
		{"alike", "a culprit of the victims' own kind", false, 0, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{lock("table")}, Loads: []hold.Load{open(100*t.load, program(victims, take(0), run(3*ms), give(0)))},
				Guests: []hold.Guest{t.guest(program(victims, take(0), steady(t.long())))}}
		}},
		{"idlers", "eight transactions of the victims' kind keep a row each, and do nothing", false, 0, func(t trial) hold.Config {
			var cfg hold.Config
			for k := range 8 {
				cfg.Resources = append(cfg.Resources, lock(fmt.Sprintf("row %d", k)))
				cfg.Loads = append(cfg.Loads, open(30*t.load, program(victims, take(k), run(3*ms), give(k))))
				cfg.Guests = append(cfg.Guests, t.guest(program(victims, take(k), rest(t.long()))))
			}
			cfg.Loads = append(cfg.Loads, open(100*t.load, program(victims, run(3*ms))))
			return cfg
		}},
		{"deadlock", "a job takes two locks in the other order, and waits for a request that waits for it", false, 0, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{lock("orders"), lock("stock")},
				Loads:  []hold.Load{open(100*t.load, program(victims, take(0), run(ms), take(1), run(ms), give(1), give(0)))},
				Guests: []hold.Guest{t.guest(program(heavy, take(1), steady(50*ms), take(0), run(ms), give(0), give(1)))}}
		}},
		{"spill", "four reports share a disk, which serves all the others as well, only later", false, 0, func(t trial) hold.Config {
			cfg := hold.Config{Resources: []hold.Resource{system("disk", 1)}, Loads: []hold.Load{open(100*t.load, program(victims, burn(0, 2*ms)))}}
			for range 4 {
				cfg.Guests = append(cfg.Guests, t.guest(hold.Program{Kind: heavy, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(200 * t.size)}))
			}
			return cfg
		}},
	}, slices.Concat(bursts(), foreign())...)
}

// bursts are of requests that are no culprits.
func bursts() []scene {
	return []scene{
		{"burst", "a burst of other requests that looks like a culprit", false, 0, func(t trial) hold.Config {
			burst := hold.Load{Program: program(heavy, take(0), run(20*ms), give(0)), Rate: []hold.Step{{}, {From: t.onset, Rate: 800 * t.size}, {From: t.onset + 2*time.Second}}}
			return hold.Config{Resources: []hold.Resource{slots("workers", 8)}, Loads: []hold.Load{open(300*t.load, program(victims, take(0), run(8*ms), give(0))), burst}}
		}},
		{"crowd", "a burst of other requests that shares the processors", false, 0, func(t trial) hold.Config {
			crowd := hold.Load{Program: program(heavy, burn(0, 20*ms)), Rate: []hold.Step{{}, {From: t.onset, Rate: 120 * t.size}, {From: t.onset + 2*time.Second}}}
			return hold.Config{Resources: []hold.Resource{system("processors", 2)}, Loads: []hold.Load{open(300*t.load, program(victims, burn(0, 2*ms))), crowd}}
		}},
	}
}

// tally is what a general case came to on one seed: how many kinds of culprits there
// are, and of how many of them one was cancelled.
type tally struct {
	culprits, cancelled, wrong, dropped int
	rate                                float64
}

func playGeneral(s scene, seed uint64) (tally, error) {
	calm := s.config(seed, false, 100*ms)
	for i := range calm.Loads {
		if l := &calm.Loads[i]; len(l.Rate) > 1 {
			l.Rate = l.Rate[:1] // without the burst
		}
	}
	calm.Guests = slices.DeleteFunc(calm.Guests, isStranger)
	free := hold.Play(calm)
	s.objective = time.Duration(slack * float64(free.P99))
	control, err := engine(culprit.Weighed)(s.objective)
	if err != nil {
		return tally{}, err
	}
	cfg := s.config(seed, true, 100*ms)
	if cfg.Controller = control; strange(&cfg) {
		cfg.Controller = &beside{Controller: control, processors: 1}
	}
	r := hold.Play(cfg)
	out := tally{rate: r.Rate / free.Rate, dropped: int(r.Dropped), wrong: r.WrongLimits}
	kinds := map[uint64]bool{} // whether one was cancelled
	for _, g := range cfg.Guests {
		if g.Culprit {
			kinds[g.Program.Kind] = false
		}
	}
	for _, c := range r.Cancels {
		switch {
		case !c.Culprit:
			out.wrong++
		case !kinds[c.Kind]:
			kinds[c.Kind] = true
			out.cancelled++
		}
	}
	out.culprits = len(kinds)
	return out, nil
}

func runGeneral(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	n := 1000
	if o.Quick {
		n = 100
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: fmt.Sprintf("General cases, %d seeds each", n), Columns: []table.Column{{Name: "case"}, {Name: "culprits cancelled, of each kind", Unit: "seeds"}, {Name: "missed", Unit: "seeds"},
		{Name: "wrong cancels"}, {Name: "not begun", Unit: "foreground requests"}, {Name: "throughput, median", Unit: "of the run without", Format: "%.3f"}}}
	for _, s := range general() {
		seeds := seedsOf(o.Seed, n)
		played, err := experiment.Each(ctx, o, seeds, func(seed *uint64) (string, float64) { return fmt.Sprintf("%s seed %d", s.name, *seed), 1 },
			func(_ context.Context, seed *uint64) (tally, error) { return playGeneral(s, *seed) })
		if err != nil {
			return nil, err
		}
		judgeGeneral(r, t, s, played)
	}
	r.Table = []*table.Table{t}
	return r, nil
}

func judgeGeneral(r *experiment.Result, t *table.Table, s scene, played []tally) {
	hits, misses, wrong, dropped := 0, 0, 0, 0
	var all []outcome
	for _, p := range played {
		switch {
		case p.cancelled < p.culprits:
			misses++
		case p.culprits > 0:
			hits++
		}
		wrong, dropped = wrong+p.wrong, dropped+p.dropped-p.wrong
		all = append(all, outcome{rate: p.rate})
	}
	t.Add(s.name+": "+s.title, hits, misses, wrong, max(dropped, 0), summarize(all).medianRate)
	if hits+misses > 0 {
		r.Floor(s.name+": culprit cancelled", " of the seeds", 0.98, 0, float64(hits)/float64(hits+misses))
	}
	r.Ceiling(s.name+": wrong cancels", " a seed", 0.001, 0, float64(wrong)/float64(len(played)))
}
