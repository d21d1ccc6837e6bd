package live

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
)

// Objective returns the latency objective: that of the configuration, or what SetObjective said last.
func (g *Gate) Objective() time.Duration { return time.Duration(g.objective.Load()) }

// LeastObjective is the shortest objective that a service may have: no answer comes through a socket in less, and a
// time.Duration without a unit is far below.
const LeastObjective = 10 * time.Microsecond

// CheckObjective returns an error for an objective above 0 and below LeastObjective.
func CheckObjective(d time.Duration) error {
	if d <= 0 || d >= LeastObjective {
		return nil
	}
	return fmt.Errorf("spillgate: the objective is %v, expected %v or more, for example 100*time.Millisecond: a number without a unit counts nanoseconds", d, LeastObjective)
}

// SetObjective changes the latency objective while the gate runs. What it has learned of the service
// stays: the concurrency limit, the pace, the credits of clients. Requests that run are judged by the new
// objective. Clients that use credits hear of it with one of their next sixteen answers. The engine that
// looks for culprits begins anew, because what is usual follows from the objective. With an error, such as
// an objective below LeastObjective, nothing changes.
func (g *Gate) SetObjective(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("live: the objective is %v, expected above 0, for example 100ms", d)
	}
	if err := CheckObjective(d); err != nil {
		return err
	}
	if err := g.setObjective(d); err != nil {
		return err
	}
	return g.finder.retune()
}

func (g *Gate) setObjective(d time.Duration) error {
	g.mu.Lock()
	now := g.now()
	defer func() { g.finish(now) }()
	if core := g.node.Gate(); core != nil {
		if err := core.SetObjective(now, d); err != nil {
			return err
		}
		if f := g.finder; f != nil {
			if was := f.cfg.hold(g.Objective()); was > 0 && core.Config().Hold == was { // it follows from the objective
				core.SetHold(f.cfg.hold(d))
			}
		}
	}
	g.objective.Store(int64(d))
	if l := g.lag.Load(); l != nil {
		l.gap.Store(int64(g.lagGap()))
	}
	return nil
}

// Learned is what a Gate has found out about its service.
type Learned struct{ admission.Learned }

// Learned returns what g knows of its service now, for GateConfig.Learned of the gate that takes its place;
// nil where another policy decides (NewGateOf).
func (g *Gate) Learned() *Learned {
	g.mu.Lock()
	defer g.mu.Unlock()
	if core := g.node.Gate(); core != nil {
		return &Learned{core.Learned()}
	}
	return nil
}
