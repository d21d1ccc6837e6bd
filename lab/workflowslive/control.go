package workflowslive

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

const ms = time.Millisecond

// wide is a limit that no load of these experiments reaches: where requests
// wait for others, it is not the gate that bounds them.
const wide = 20_000

// targets are the queueing delays above which something is overloaded, by world: a third of
// what requests take that are in nobody's way, or less.
var targets = map[string]time.Duration{isolationName: victimRead / 4, hotspotName: pinnedHold / 2}

// control is gates that have no credits and refuse for no delay, and as many slots as a service
// has workers where a request keeps one to the end.
func control(name string, withRates, fair bool) bed.Peer {
	order := schedule.Config{Fair: fair}
	return bed.Peer{Name: name, Order: bed.Order{Kind: bed.Scheduled, Schedule: order},
		Gate: func(w *world.World, s *world.Service) live.GateConfig {
			n := wide
			if s.Workers > 0 && !s.Async {
				n = s.Workers
			}
			cfg := live.GateConfig{Service: s.Name, Config: admission.Config{
				Objective: s.Objective, TargetDelay: targets[w.Name], NoCredit: true, NoAQM: true,
				Slots: slots.Config{Min: n, Max: n, Initial: n}, QueueLimit: wide, Schedule: order}}
			if !withRates {
				return cfg
			}
			cfg.Rates = &rates.Config{}
			if s.Async {
				cfg.Rates.Resources = append(cfg.Rates.Resources, rates.Resource{Name: "workers", Capacity: float64(s.Workers)})
			}
			for _, l := range s.Locks {
				cfg.Rates.Resources = append(cfg.Rates.Resources, rates.Resource{Name: l.Name, Capacity: float64(l.Permits)})
			}
			return cfg
		}}
}

func waits(mean time.Duration, lock string) world.Step {
	return world.Step{Wait: &world.Draw{Shape: world.Exponential, Mean: mean}, Lock: lock}
}

func calls(service, method string) world.Step {
	return world.Step{Call: []world.Target{{Service: service, Method: method}}}
}

func method(name string, steps ...world.Step) world.Method {
	return world.Method{Name: name, Steps: steps}
}

// flow is a workflow that comes at a rate over time and asks the front ends for a method. The
// requests of two stretches of that length ask for the same work.
func flow(name string, length time.Duration, ask []world.Ask, steps ...world.Rate) world.Group {
	last := steps[len(steps)-1].PerSecond
	return world.Group{Name: name, Kind: world.Plain, Connections: 8, Ask: ask, Load: world.Load{Steps: steps},
		Cycle: max(1, int(last*length.Seconds()))}
}

func asks(methods ...string) (all []world.Ask) {
	for _, m := range methods {
		all = append(all, world.Ask{Target: world.Target{Service: "FE", Method: m}})
	}
	return all
}

// job is one run of an experiment.
type job struct {
	bed.Take
	judged bool
}

// made is what came of it.
type made struct {
	*bed.Played
	disturbed []string
}

// results makes the runs. One that is judged and was disturbed is made again, retakes times in
// all; after that r says so, and its figures void what they enter.
func results(ctx context.Context, o experiment.Options, r *experiment.Result, jobs []job, most time.Duration, retakes int) ([]made, error) {
	disturbed := func(_ bed.Take, p *bed.Played) string { return p.Record.Disturbed(most) }
	var out []made
	for i, j := range jobs {
		o.Step(i, len(jobs), j.Policy)
		again, once := &retakes, 0
		if !j.judged {
			again = &once
		}
		played, why, err := bed.Counted(ctx, again, disturbed, []bed.Take{j.Take}, Peers()...)
		if err != nil {
			return nil, err
		}
		m := made{Played: played[0]}
		if j.judged {
			m.disturbed = why
			r.Void = append(r.Void, why...)
		}
		out = append(out, m)
		r.Notes = append(r.Notes, fmt.Sprintf("%s, seed %d: the servers used %.0f %% of one processor; p99 of the send lag at most %v.",
			j.Policy, j.Seed, 100*m.Used().Seconds()/j.World.Length.Seconds(), m.Record.SendLag.Round(10*time.Microsecond)))
	}
	o.Step(len(jobs), len(jobs), "done")
	return out, nil
}

// seeds returns n seeds from that of the options, or in the quick form one.
func seeds(o experiment.Options, n int) (all []uint64) {
	if o.Quick {
		n = 1
	}
	for i := range n {
		all = append(all, o.Seed+uint64(i))
	}
	return all
}

func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(ms) }

// chart draws what f says of each second of the run for each of the workflows.
func chart(title string, y plot.Axis, j job, m made, names map[string]bool, f func(s *bed.Stretch) float64, marks ...plot.Level) *plot.Chart {
	c := &plot.Chart{Title: title, X: plot.Axis{Label: "time", Unit: "s"}, Y: y, Levels: marks}
	for i := range j.World.Clients {
		if !names[j.World.Clients[i].Name] {
			continue
		}
		line := plot.Series{Name: j.World.Clients[i].Name}
		for at := time.Duration(0); at+time.Second <= j.World.Length; at += time.Second {
			s := m.Stretch(i, at, at+time.Second)
			line.X, line.Y = append(line.X, at.Seconds()), append(line.Y, f(&s))
		}
		c.Series = append(c.Series, line)
	}
	return c
}
