package admission

import (
	"errors"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
)

// SetObjective changes the latency objective, and what follows from it unless it was configured: the
// target delay, the slack of the slots, the intervals of the credits. What was learned stays, because it
// is about the service: limit, knee, pace, the shape of residence times, credits, shares. Requests that run keep
// the instants that followed from the old one. With a mistake, such as a configured target
// beyond the new objective, nothing changes.
func (g *Gate) SetObjective(now mono.Time, d time.Duration) error {
	asked := g.asked
	asked.Objective = d
	cfg, err := asked.withDefaults()
	if err != nil {
		return err
	}
	if err := g.pool.SetObjective(cfg.TargetDelay, d); err != nil {
		return err
	}
	g.asked, g.cfg = asked, cfg
	g.limit.SetSlack(cfg.Slots.Slack)
	g.cpu.lagged = min(g.cpu.lagged, hostLagged*d)
	g.worth.objective = d
	g.undecided = decideEvery // due
	g.decide(now)
	return nil
}

// SetHold changes Config.Hold from one time above 0 to another; where either is not above 0, it changes nothing. A
// hold that is open ends as it would have.
func (g *Gate) SetHold(d time.Duration) {
	if d <= 0 || g.hold.length <= 0 {
		return
	}
	g.asked.Hold, g.cfg.Hold = d, d
	h := &g.hold
	h.length, h.left = d, time.Duration(float64(h.left)*(float64(d)/float64(h.length))) // the same part of it is left
}

// Learned is what a Gate has found out about its service: with it, another Gate in front of the same
// service goes on from there.
type Learned struct {
	slots slots.Learned
	pace  pace
	worth worth
}

// Learned returns what g knows now.
func (g *Gate) Learned() Learned {
	p := g.pace
	// What goes on at this moment is not the successor's.
	p.busy, p.quiet = false, silence{last: p.last}
	return Learned{g.limit.Learned(), p, g.worth}
}

// errSeen is of a gate that has seen requests.
var errSeen = errors.New("admission: the gate has seen requests; expected a new one")

// Learn has g, which has seen no request yet, begin with what another gate knew. Its own configuration
// bounds the slots.
func (g *Gate) Learn(k Learned) error {
	if g.limit.InUse() > 0 || g.pace.ran.count > 0 {
		return errSeen
	}
	g.limit.Learn(k.slots)
	g.pace, g.worth = k.pace, k.worth
	g.worth.objective = g.cfg.Objective
	g.pace.follow(g.limit)
	return nil
}
