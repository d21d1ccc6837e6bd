package culpritsim

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

// strangers is the kind of what stands for other programs on the machine.
const strangers = 900

// beside shows an engine an application whose machine other programs use, as guards do: these are no tasks, which part of the
// processors they have is known, and for how long others kept each task from one. The processors themselves are not shown.
type beside struct {
	hold.Controller
	processors int // resource

	at      mono.Time
	used    map[uint64]uint64 // by task
	lost    map[uint64]time.Duration
	starved map[uint64]time.Duration
	seen    culprit.Sample
}

// Observe implements hold.Controller.
func (b *beside) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	stranger := func(t *culprit.Task) bool { return t.Kind == strangers }
	used, lost := map[uint64]uint64{}, map[uint64]time.Duration{}
	own, others := 0.0, 0.0
	for i := range s.Holds {
		h := &s.Holds[i]
		if int(h.Resource) != b.processors {
			continue
		}
		t := &s.Tasks[h.Task]
		used[t.ID], lost[t.ID] = h.Gets, h.WaitTime
		if got := float64(h.Gets - min(b.used[t.ID], h.Gets)); stranger(t) {
			others += got
		} else {
			own += got
		}
	}
	share := 0.0
	if others > 0 {
		share = others / (others + own)
	}
	starved := map[uint64]time.Duration{}
	out := &b.seen
	*out = culprit.Sample{At: s.At, Resources: s.Resources, Finished: s.Finished, Tasks: out.Tasks[:0], Holds: out.Holds[:0]}
	if dt := s.At.Sub(b.at); dt > 0 {
		out.Taken = min(others/(float64(dt)*processorsThere), 1)
	}
	index := make([]int32, len(s.Tasks))
	for i := range s.Tasks {
		t := s.Tasks[i]
		if index[i] = -1; stranger(&t) {
			continue
		}
		starved[t.ID] = b.starved[t.ID] + time.Duration(share*float64(max(lost[t.ID]-b.lost[t.ID], 0)))
		t.Starved = starved[t.ID]
		index[i] = int32(len(out.Tasks))
		out.Tasks = append(out.Tasks, t)
	}
	for _, h := range s.Holds {
		if h.Task = index[h.Task]; h.Task >= 0 && int(h.Resource) != b.processors {
			out.Holds = append(out.Holds, h)
		}
	}
	b.at, b.used, b.lost, b.starved = s.At, used, lost, starved
	return b.Controller.Observe(out)
}

// processorsThere is how many processors the machine has.
const processorsThere = 2

// foreign are cases in which other programs take most of the processors for some seconds: a server whose requests and reports need
// workers and processors, alone and beside a culprit that needs no processor.
func foreign() []scene {
	machine := func(t trial) hold.Config {
		other := hold.Guest{Program: hold.Program{Kind: strangers, Ops: []hold.Op{spend(1, 12*time.Second)}, Weight: 10 + 30*t.chance.Float64()}, At: t.onset, Background: true}
		return hold.Config{Resources: []hold.Resource{slots("workers", 8), system("processors", processorsThere), lock("table")},
			Loads: []hold.Load{open(150*t.load, program(victims, take(0), burn(1, 3*ms), take(2), run(ms), give(2), give(0))),
				open(0.7, program(readers, take(0), burn(1, time.Duration(150*t.size*float64(ms))), give(0))),
				open(0.5, program(helper, take(0), rest(500*ms), give(0)))},
			Guests: []hold.Guest{other}}
	}
	return []scene{
		{"strangers", "other programs take nine tenths of the processors", false, 0, machine},
		{"among strangers", "the same, and a culprit keeps a lock and sleeps", false, 0, func(t trial) hold.Config {
			cfg := machine(t)
			cfg.Guests = append(cfg.Guests, t.guest(program(heavy, take(2), steady(t.long()))))
			return cfg
		}},
	}
}

// strange reports whether a scene has strangers.
func strange(cfg *hold.Config) bool { return slices.ContainsFunc(cfg.Guests, isStranger) }

func isStranger(g hold.Guest) bool { return g.Program.Kind == strangers }
