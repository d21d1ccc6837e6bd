package admissionlive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func peers(third []bed.Peer) experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/peers",
		Title: "Spillgate beside its peers on real gRPC, from 1x to 4x and through a spike",
		About: `One server process and one process of 100 clients, a core each. The sleep station has 4 slots
of 10 ms and an objective of 100 ms, the spin station burns 2 ms of the server's own core and has 40 ms, and GOMAXPROCS=2
so that the kernel lets those who read connections in between; the full form shows it with GOMAXPROCS=1 as well.
All are exponential. Spillgate is told the objective and nothing else. The semaphore is tuned by hand: its bar is the best that six settings of limit and queue (as many
slots as the station has with a queue of 0.1, 0.2, 0.5 or 0.75 of the objective, half of them, twice as many) reach at
any load that was measured, so also at the one that suits it best.`,
		Live: true,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			c := contest{settings: []setting{sleep, spin, loneSpin}, loads: []float64{1, 2, 4, spike}, repeats: 5, length: 2500 * ms, objectives: 100}
			if o.Quick {
				c = contest{settings: []setting{sleep, spin}, loads: []float64{2, 4}, repeats: 1, length: 2 * second, objectives: 40}
			}
			return c.run(ctx, o, third)
		},
	}
}

func peersFast(third []bed.Peer) experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/peers-fast",
		Title: "the same with objectives of 10 and 2 ms, for a machine with nothing beside",
		About: `As admission/peers, with 2 slots that sleep 1 ms and an objective of 10 ms, and with 100 µs of the server's core and
one of 2 ms. A virtual machine whose host takes a processor away for a millisecond now and then voids these runs.`,
		Live: true,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			c := contest{settings: []setting{fastSleep, fastSpin}, loads: []float64{0.7, 1, 2, 4, spike}, repeats: 3, length: 2500 * ms}
			if o.Quick {
				c.loads, c.repeats, c.length = []float64{2, 4}, 1, 2*second
			}
			return c.run(ctx, o, third)
		},
	}
}

// setting is a station, and what an operator who sets a limit by hand knows of it.
type setting struct {
	name            string
	slots           int
	mean, objective time.Duration
	// threads, if above 0, says that it burns the processor.
	threads int
}

var (
	sleep = setting{"sleep", 4, 10 * ms, 100 * ms, 0}
	// With a GOMAXPROCS above the number of processors who reads connections shares them
	// with handlers by the kernel's slices, instead of waiting for their end.
	spin      = setting{"spin", 1, 2 * ms, 40 * ms, 2}
	loneSpin  = setting{"lone spin", 1, 2 * ms, 40 * ms, 1}
	fastSleep = setting{"fast sleep", 2, ms, 10 * ms, 0}
	fastSpin  = setting{"fast spin", 1, 100 * time.Microsecond, 2 * ms, 2}
)

// A load below 0 is a step from calm times the capacity to as many times as it says, at
// two fifths of the run.
const calm, spike, steep = 0.4, -1.4, -4

func loadName(load float64) string {
	if load < 0 {
		return fmt.Sprintf("%g→%g", calm, -load)
	}
	return fmt.Sprintf("%gx", load)
}

// world is a run under a load, of which the first quarter does not count, and of a step
// what was before it.
func (s *setting) world(load, capacity float64, length time.Duration) *world.World {
	rates, warmup := []world.Rate{{PerSecond: load * capacity}}, length/4
	if load < 0 {
		warmup = length * 2 / 5
		rates = []world.Rate{{PerSecond: calm * capacity}, {At: warmup, PerSecond: -load * capacity}}
	}
	w := waits(s.objective, s.slots, s.mean, world.Load{Steps: rates})
	if s.threads > 0 {
		w = station(s.objective, world.Service{Host: "core", Threads: s.threads}, world.Step{Compute: exponential(s.mean)}, world.Load{Steps: rates})
		w.Hosts = []world.Host{{Name: "core", Processors: 1}}
	}
	w.Warmup, w.Length = warmup, length
	return w
}

// capacity is known of workers, and measured where gRPC itself takes part of the
// processor: anew in each repeat, as the machine is now fast and now slow.
func (s *setting) capacity(ctx context.Context, seed uint64) (float64, error) {
	if s.threads == 0 {
		return float64(s.slots) / s.mean.Seconds(), nil
	}
	return bed.Capacity(ctx, s.world(1, 1, second), "none", seed)
}

// semaphores are the limits that an operator would try: as many as there are slots with a
// queue of half the objective, shorter and longer ones, half and twice the slots. The quick
// form has the first two.
func (s *setting) semaphores(quick bool) []string {
	queue := float64(s.objective/2) / (float64(s.mean) / float64(s.slots))
	of := func(limit int, shrink float64) string {
		return fmt.Sprintf("semaphore:%d:%d", limit, max(int(shrink*queue), 1))
	}
	all := []string{of(s.slots, 1), of(s.slots, 0.4), of(s.slots, 0.2), of(s.slots, 1.5), of(2*s.slots, 1)}
	if s.slots > 1 {
		all = append(all, of(s.slots/2, 1))
	}
	if quick {
		return all[:2]
	}
	return all
}

func byHand(policy string) bool { return strings.HasPrefix(policy, "semaphore") }

// contest is a number of stations, loads and repeats, for all contenders.
type contest struct {
	settings []setting
	loads    []float64
	repeats  int
	// A run has this length, and as many objectives at least.
	length     time.Duration
	objectives int
	// policies, if there are any, meet every load, instead of those that the bars need.
	policies []string
}

// cell is a contender under a load.
type cell struct {
	setting *setting
	load    float64
	bed.Series
	capacities []float64 // of the repeats
}

// cells returns who meets which load at a station. The runs are long: what says nothing
// about a bar meets one load; third-party peers meet all of them in the full form.
func (c *contest) cells(s *setting, quick bool, third []bed.Peer) (all []*cell) {
	if len(c.policies) > 0 {
		for _, load := range c.loads {
			for _, policy := range c.policies {
				all = append(all, &cell{setting: s, load: load, Series: bed.Series{Policy: policy}})
			}
		}
		return all
	}
	hand := s.semaphores(quick)
	policies := append([]string{ours}, hand...)
	policies = append(policies, "none")
	if !quick {
		policies = append(policies, worlds.Peers()...)
	}
	for _, peer := range third {
		policies = append(policies, peer.Name)
	}
	for _, load := range c.loads {
		for _, policy := range policies {
			bar := policy == ours || policy == hand[0] || byHand(policy) && load > 0 && !(quick && load != 2)
			extra := load == 2 && !(quick && s.threads > 0) || !quick && load >= 1 && slices.ContainsFunc(third, func(p bed.Peer) bool { return p.Name == policy })
			if *s == loneSpin {
				bar, extra = load >= 2 && (policy == ours || policy == hand[0]), false
			}
			if bar || extra {
				all = append(all, &cell{setting: s, load: load, Series: bed.Series{Policy: policy}})
			}
		}
	}
	return all
}

func (c *contest) run(ctx context.Context, o experiment.Options, third []bed.Peer) (*experiment.Result, error) {
	retakes := 1
	if o.Quick {
		retakes = 0
	}
	var all []*cell
	for i := range c.settings {
		s := &c.settings[i]
		cells := c.cells(s, o.Quick, third)
		length := max(c.length, time.Duration(c.objectives)*s.objective)
		for repeat := range c.repeats {
			seed := o.Seed + uint64(repeat)
			capacity, err := s.capacity(ctx, seed)
			if err != nil {
				return nil, fmt.Errorf("capacity of %s: %w", s.name, err)
			}
			for n, cell := range cells {
				o.Step((i*c.repeats+repeat)*len(cells)+n, len(c.settings)*c.repeats*len(cells), fmt.Sprintf("%s %s %s", s.name, loadName(cell.load), cell.Policy))
				cell.capacities = append(cell.capacities, capacity)
				if err := cell.Play(ctx, s.world(cell.load, capacity, length), seed, retakes, third...); err != nil {
					return nil, fmt.Errorf("%s at %s: %w", s.name, loadName(cell.load), err)
				}
			}
		}
		all = append(all, cells...)
	}
	o.Step(1, 1, "done")
	r := &experiment.Result{Quick: o.Quick, Table: tables(all)}
	for _, cell := range all {
		for _, why := range cell.Disturbed() {
			r.Notes = append(r.Notes, fmt.Sprintf("Disturbed at %s, %s: %s.", cell.setting.name, loadName(cell.load), why))
		}
	}
	judge(r, all)
	return r, nil
}
