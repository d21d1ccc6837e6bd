package culpritsim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

// trial is one run's share of chance: what the seed varies by half and double.
type trial struct {
	load, size float64       // factors
	onset      time.Duration // of the culprit
	chance     *rand.Rand
}

// scene is one of the sixteen cases: the application in its simulated form.
type scene struct {
	name, title string
	// gradual culprits do harm only after a while, such as a scan that must fill a
	// pool first; their onset is the first request that misses the objective.
	gradual bool
	// objective is the latency that the foreground must meet.
	objective time.Duration
	build     func(trial) hold.Config
}

// last is how long a run goes on after the onset.
const last = 12 * time.Second

// draw returns the trial of a seed.
func draw(seed uint64) trial {
	chance := sim.Chance(seed, 77, 0)
	factor := func() float64 { return math.Exp2(2*chance.Float64() - 1) }
	return trial{load: factor(), size: factor(), onset: time.Duration(4 * factor() * float64(time.Second)), chance: chance}
}

// config returns a scene under a trial, with its culprits or without.
func (s *scene) config(seed uint64, with bool, every time.Duration) hold.Config {
	t := draw(seed)
	cfg := s.build(t)
	cfg.Seed, cfg.Objective, cfg.Every, cfg.Delay = seed, s.objective, every, 2*time.Millisecond
	cfg.From, cfg.End = t.onset+time.Second, t.onset+last
	if !with {
		kept := cfg.Guests[:0]
		for _, g := range cfg.Guests {
			if !g.Culprit {
				kept = append(kept, g)
			}
		}
		cfg.Guests = kept
	}
	return cfg
}

const ms = time.Millisecond

// kinds of tasks
const (
	victims uint64 = iota + 1
	readers
	heavy
	helper
)

var cancellable = culprit.StepsOf(culprit.Statement, culprit.Session)

func lock(name string) hold.Resource { return hold.Resource{Name: name, Kind: culprit.Lock} }
func slots(name string, n float64) hold.Resource {
	return hold.Resource{Name: name, Kind: culprit.Queue, Slots: n}
}
func system(name string, n float64) hold.Resource {
	return hold.Resource{Name: name, Kind: culprit.System, Slots: n}
}

func take(r int) hold.Op             { return hold.Op{Do: hold.Acquire, Resource: r} }
func join(r int) hold.Op             { return hold.Op{Do: hold.Acquire, Resource: r, Shared: true} }
func give(r int) hold.Op             { return hold.Op{Do: hold.Release, Resource: r} }
func run(d time.Duration) hold.Op    { return hold.Op{Do: hold.Run, Time: d, Random: true} }
func steady(d time.Duration) hold.Op { return hold.Op{Do: hold.Run, Time: d} }
func rest(d time.Duration) hold.Op   { return hold.Op{Do: hold.Rest, Time: d} }
func burn(r int, d time.Duration) hold.Op {
	return hold.Op{Do: hold.Work, Resource: r, Time: d, Random: true}
}
func spend(r int, d time.Duration) hold.Op { return hold.Op{Do: hold.Work, Resource: r, Time: d} }
func touch(r, units, chunk int, d time.Duration) hold.Op {
	return hold.Op{Do: hold.Touch, Resource: r, Units: units, Chunk: chunk, Time: d}
}

func program(kind uint64, ops ...hold.Op) hold.Program { return hold.Program{Kind: kind, Ops: ops} }

// open is a stream of requests, clients is a number of closed-loop clients.
func open(rate float64, p hold.Program) hold.Load {
	return hold.Load{Program: p, Rate: []hold.Step{{Rate: rate}}}
}
func clients(n float64, think time.Duration, p hold.Program) hold.Load {
	return hold.Load{Program: p, Clients: max(int(math.Round(n)), 1), Think: think}
}

// scenes returns c1 to c16.
func scenes() []scene {
	return append(databases(), servers()...)
}

// databases are c1 to c8.
func databases() []scene {
	return []scene{
		{"c1", "backup lock: FLUSH behind a long UPDATE", false, 100 * ms, func(t trial) hold.Config {
			update := hold.Program{Kind: helper, Ops: []hold.Op{join(0), steady(10 * ms)}, Known: true}
			update.Ops = append(update.Ops, steady(time.Duration(15*t.size*float64(time.Second))))
			return hold.Config{Resources: []hold.Resource{lock("backup")},
				Loads: []hold.Load{clients(16*t.load, 10*ms, program(victims, join(0), run(5*ms), give(0)))},
				Guests: []hold.Guest{
					{Program: update, At: t.onset - time.Second, Background: true, Steps: cancellable, Undo: 0.4},
					{Program: program(heavy, take(0), run(200*ms), give(0)), At: t.onset, Background: true, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c2", "server threads: heavy joins fill the pool", false, 100 * ms, func(t trial) hold.Config {
			cfg := hold.Config{Resources: []hold.Resource{slots("threads", 6)},
				Loads: []hold.Load{open(200*t.load, program(victims, take(0), run(8*ms)))}}
			for range 6 {
				cfg.Guests = append(cfg.Guests, hold.Guest{Program: program(heavy, take(0), steady(time.Duration(20*t.size*float64(time.Second)))), At: t.onset, Steps: cancellable, Culprit: true, Target: true})
			}
			return cfg
		}},
		{"c3", "undo log: a snapshot is held", true, 40 * ms, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{{Name: "undo log", Kind: culprit.Memory, History: true, Miss: 100 * time.Microsecond}},
				Loads: []hold.Load{clients(16*t.load, 5*ms, program(victims, touch(0, 10, 10, 2*ms), run(2*ms)))},
				Guests: []hold.Guest{{Program: program(heavy, join(0), steady(20*ms), rest(time.Duration(60*t.size*float64(time.Second)))), At: t.onset,
					Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c4", "table lock: SELECT … FOR UPDATE over a table", false, 100 * ms, func(t trial) hold.Config {
			scan := hold.Program{Kind: heavy, Ops: []hold.Op{take(0), steady(time.Duration(20 * t.size * float64(time.Second)))}, Known: true}
			return hold.Config{Resources: []hold.Resource{lock("rows")},
				Loads:  []hold.Load{clients(16*t.load, 10*ms, program(victims, join(0), run(4*ms)))},
				Guests: []hold.Guest{{Program: scan, At: t.onset, Steps: cancellable, Keeps: true, Culprit: true, Target: true}}}
		}},
		{"c5", "buffer pool: a dump of a large table", true, 40 * ms, func(t trial) hold.Config {
			dump := hold.Program{Kind: heavy, Ops: []hold.Op{touch(0, 64, 64, 2*ms)}, Times: int(8000 * t.size), Known: true}
			return hold.Config{Resources: []hold.Resource{{Name: "buffer pool", Kind: culprit.Memory, Pages: 4000, Hot: 3600, Miss: ms}},
				Loads:  []hold.Load{clients(16*t.load, 10*ms, program(victims, touch(0, 20, 20, 4*ms), run(2*ms)))},
				Guests: []hold.Guest{{Program: dump, At: t.onset, Background: true, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c6", "table lock: LOCK TABLE and UPDATE in one transaction", false, 100 * ms, func(t trial) hold.Config {
			work := time.Duration(0.15 * t.size * float64(time.Second))
			return hold.Config{Resources: []hold.Resource{lock("table")},
				Loads: []hold.Load{clients(16*t.load, 5*ms, program(victims, join(0), run(3*ms)))},
				Guests: []hold.Guest{{Program: program(heavy, take(0), steady(work), rest(time.Duration(60*t.size*float64(time.Second)))), At: t.onset,
					Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c7", "write-ahead log: a bulk update", false, 50 * ms, func(t trial) hold.Config {
			bulk := hold.Program{Kind: heavy, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(2000 * t.size), Weight: 24, Known: true}
			return hold.Config{Resources: []hold.Resource{system("log", 1)},
				Loads:  []hold.Load{clients(16*t.load, 40*ms, program(victims, run(3*ms), burn(0, ms)))},
				Guests: []hold.Guest{{Program: bulk, At: t.onset, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c8", "disk: VACUUM FULL", false, 50 * ms, func(t trial) hold.Config {
			vacuum := hold.Program{Kind: heavy, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(2000 * t.size), Weight: 32, Known: true}
			return hold.Config{Resources: []hold.Resource{system("disk", 2)},
				Loads: []hold.Load{clients(16*t.load, 30*ms, program(victims, run(3*ms), burn(0, 2*ms)))},
				Guests: []hold.Guest{{Program: vacuum, At: t.onset, Background: true, Culprit: true, Target: true,
					Steps: culprit.StepsOf(culprit.Throttle, culprit.Statement, culprit.Session)}}}
		}},
	}
}

// servers are c9 to c16.
func servers() []scene {
	return []scene{
		{"c9", "workers: slow scripts", false, 100 * ms, func(t trial) hold.Config {
			cfg := hold.Config{Resources: []hold.Resource{slots("workers", 16)},
				Loads: []hold.Load{open(400*t.load, program(victims, take(0), run(8*ms)))}}
			for range 16 {
				cfg.Guests = append(cfg.Guests, hold.Guest{Program: program(heavy, take(0), steady(time.Duration(20*t.size*float64(time.Second)))), At: t.onset, Steps: cancellable, Culprit: true, Target: true})
			}
			return cfg
		}},
		{"c10", "query cache: a search with large aggregations", true, 60 * ms, func(t trial) hold.Config {
			search := hold.Program{Kind: heavy, Ops: []hold.Op{touch(0, 32, 32, 10*ms)}, Times: int(4000 * t.size), Known: true}
			return hold.Config{Resources: []hold.Resource{{Name: "query cache", Kind: culprit.Memory, Pages: 1000, Hot: 800, Miss: 1500 * time.Microsecond}},
				Loads:  []hold.Load{open(150*t.load, program(victims, touch(0, 40, 40, 3*ms), run(4*ms)))},
				Guests: []hold.Guest{{Program: search, At: t.onset, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c11", "heap: a nested aggregation", true, 60 * ms, func(t trial) hold.Config {
			search := hold.Program{Kind: heavy, Ops: []hold.Op{touch(0, 50, 50, 10*ms)}, Times: int(4000 * t.size)}
			return hold.Config{Resources: []hold.Resource{{Name: "heap", Kind: culprit.Memory, Heap: true, Pages: 2000, Hot: 1500, Miss: 3 * ms}},
				Loads:  []hold.Load{open(150*t.load, program(victims, touch(0, 30, 30, 3*ms), run(4*ms)))},
				Guests: []hold.Guest{{Program: search, At: t.onset, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c12", "processors: a query of thousands of terms", false, 60 * ms, func(t trial) hold.Config {
			search := hold.Program{Kind: heavy, Ops: []hold.Op{spend(0, 10*ms)}, Times: int(4000 * t.size), Weight: 16, Known: true}
			return hold.Config{Resources: []hold.Resource{system("processors", 2)},
				Loads:  []hold.Load{open(100*t.load, program(victims, burn(0, 5*ms)))},
				Guests: []hold.Guest{{Program: search, At: t.onset, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c13", "document lock: one huge bulk", false, 100 * ms, func(t trial) hold.Config {
			bulk := hold.Program{Kind: heavy, Ops: []hold.Op{take(0), steady(time.Duration(20 * t.size * float64(time.Second)))}, Known: true}
			return hold.Config{Resources: []hold.Resource{lock("document")},
				Loads:  []hold.Load{open(60*t.load, program(victims, take(0), run(5*ms))), open(100*t.load, program(readers, run(10*ms)))},
				Guests: []hold.Guest{{Program: bulk, At: t.onset, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c14", "index lock: statistics over thousands of fields", false, 100 * ms, func(t trial) hold.Config {
			stats := hold.Program{Kind: heavy, Ops: []hold.Op{take(0), steady(300 * ms), give(0), steady(5 * ms)}, Times: int(60 * t.size), Known: true}
			return hold.Config{Resources: []hold.Resource{lock("index")},
				Loads:  []hold.Load{open(100*t.load, program(victims, run(5*ms), join(0), run(5*ms)))},
				Guests: []hold.Guest{{Program: stats, At: t.onset, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"c15", "search threads: nested range queries", false, 100 * ms, func(t trial) hold.Config {
			cfg := hold.Config{Resources: []hold.Resource{slots("threads", 8), system("processors", 8)},
				Loads: []hold.Load{open(150*t.load, program(victims, take(0), burn(1, 6*ms)))}}
			for i := range 10 {
				cfg.Guests = append(cfg.Guests, hold.Guest{Program: hold.Program{Kind: heavy, Ops: []hold.Op{take(0), spend(1, 10*ms)}, Times: int(800 * t.size), Known: true},
					At: t.onset + time.Duration(i)*10*ms, Steps: cancellable, Culprit: true, Target: true})
				cfg.Guests[i].Program.Ops = []hold.Op{take(0)}
				for range int(800 * t.size) {
					cfg.Guests[i].Program.Ops = append(cfg.Guests[i].Program.Ops, spend(1, 10*ms))
				}
				cfg.Guests[i].Program.Times = 1
			}
			return cfg
		}},
		{"c16", "key-value lock: counting a large range again and again", false, 100 * ms, func(t trial) hold.Config {
			return hold.Config{Resources: []hold.Resource{lock("tree")},
				Loads: []hold.Load{open(60*t.load, program(victims, take(0), run(2*ms))), open(60*t.load, program(readers, join(0), run(2*ms)))},
				Guests: []hold.Guest{{Program: program(heavy, join(0), steady(time.Duration(600*t.size)*ms)), At: t.onset, Again: ms,
					Steps: cancellable, Culprit: true, Target: true}}}
		}},
	}
}
