package admission

import (
	"errors"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/signal"
	"github.com/spillgate/spillgate/internal/work"
)

// slotsResource is the place of the gate's own slots among the resources of its
// rates.
const slotsResource = 0

// shaper holds back what is over its workflow's rate, in front of the queue for a
// slot. Each workflow waits in a line of its own, in the order of that queue.
type shaper struct {
	cfg       rates.Config
	order     schedule.Config
	adapter   *rates.Adapter // from the first event on, when there is a now
	lines     []*line        // by workflow; nil if it never had to wait
	busy      []*line        // those in which something waits
	turn      int            // of busy, to be asked first
	waiting   int
	pressures []rates.Pressure
	waits     signal.Meter // for slots, since the last period ended
}

type line struct {
	queue   *schedule.Queue
	ready   mono.Time // of its next token
	waiting bool      // in busy
}

// newShaper returns nil where no rates are configured.
func newShaper(cfg Config) (*shaper, error) {
	if cfg.Rates == nil {
		return nil, nil
	}
	s := &shaper{cfg: *cfg.Rates, order: schedule.Config{Order: cfg.Schedule.Order, Aging: cfg.Schedule.Aging}}
	// A request uses a share of the slots, so that a limit that moves changes nothing.
	slots := rates.Resource{Name: "slots", Capacity: 1}
	s.cfg.Resources = append([]rates.Resource{slots}, cfg.Rates.Resources...)
	s.pressures = make([]rates.Pressure, len(s.cfg.Resources))
	_, err := rates.New(0, s.cfg)
	return s, err
}

// at returns the adapter, whose first period begins with the first event.
func (s *shaper) at(now mono.Time) *rates.Adapter {
	if s.adapter == nil {
		s.adapter, _ = rates.New(now, s.cfg) // was checked
	}
	return s.adapter
}

// arrive counts a request before anything can refuse it.
func (s *shaper) arrive(now mono.Time, t *Ticket, service time.Duration) {
	a, r := s.at(now), &t.rated
	r.Workflow, r.From, r.Attempt, r.Demand = a.Workflow(now, t.Workflow), t.From, t.Attempt, t.Claim
	r.Deadline, r.Remaining = t.Deadline, t.Remaining
	if r.Remaining == 0 {
		r.Remaining = service
	}
	a.OnArrival(now, r)
}

// enter lets t through, refuses it, or lets it wait.
func (s *shaper) enter(now mono.Time, t *Ticket) (rates.Verdict, work.Reason) {
	v, reason := s.adapter.Enter(now, &t.rated)
	if v != rates.Wait {
		return v, reason
	}
	l := s.line(t.rated.Workflow)
	t.fill(now, 0)
	t.task.Workflow, t.task.Class, t.task.Kind = 0, work.Default, schedule.Kind{} // one order a line
	l.queue.Push(now, &t.task)
	t.state = shaped
	s.waiting++
	if !l.waiting {
		l.waiting, l.ready = true, s.adapter.ReadyAt(now, t.rated.Workflow)
		s.busy = append(s.busy, l)
	}
	return v, work.None
}

// observe says what enter would have, with the wait, and lets t through.
func (s *shaper) observe(now mono.Time, t *Ticket) (time.Duration, work.Reason) {
	v, reason := s.adapter.Enter(now, &t.rated)
	if v != rates.Wait {
		return 0, reason
	}
	wait := s.adapter.ReadyAt(now, t.rated.Workflow).Sub(now)
	s.adapter.OnCancel(&t.rated)
	return wait, work.None
}

func (s *shaper) line(w rates.Workflow) *line {
	for int(w) >= len(s.lines) {
		s.lines = append(s.lines, nil)
	}
	if s.lines[w] == nil {
		queue, _ := schedule.New(s.order) // the gate's own was made from it
		s.lines[w] = &line{queue: queue}
	}
	return s.lines[w]
}

// next returns a ticket that need not wait any more, or is refused for a reason; nil
// if there is none now.
func (s *shaper) next(now mono.Time) (*Ticket, work.Reason) {
	for i := 0; i < len(s.busy); {
		at := (s.turn + i) % len(s.busy)
		l := s.busy[at]
		task, run := l.queue.Peek(now)
		if task == nil {
			l.waiting = false
			s.busy = append(s.busy[:at], s.busy[at+1:]...)
			continue
		}
		t := task.Owner.(*Ticket)
		v, reason := rates.Drop, late(now, t.Deadline)
		if run {
			v, reason = s.adapter.Next(now, &t.rated)
		} else {
			s.adapter.OnCancel(&t.rated)
		}
		if v == rates.Wait {
			l.ready = s.adapter.ReadyAt(now, t.rated.Workflow)
			i++
			continue
		}
		l.queue.Remove(task)
		s.waiting--
		s.turn = at + 1 // the others' turn
		return t, reason
	}
	return nil, work.None
}

// cancel takes out a ticket that waits.
func (s *shaper) cancel(t *Ticket) {
	s.lines[t.rated.Workflow].queue.Remove(&t.task)
	s.adapter.OnCancel(&t.rated)
	s.waiting--
}

// any returns a ticket that waits, nil if none does.
func (s *shaper) any() *Ticket {
	for _, l := range s.busy {
		if t := l.queue.Oldest(); t != nil {
			return t.Owner.(*Ticket)
		}
	}
	return nil
}

// leave counts a request that ran and used a slot for so long.
func (s *shaper) leave(now mono.Time, t *Ticket, o work.Outcome, used time.Duration) {
	s.adapter.OnUse(t.rated.Workflow, slotsResource, used)
	s.adapter.OnDone(now, &t.rated, o)
}

// due reports whether a period ends at now, or the first one begins.
func (s *shaper) due(now mono.Time) bool { return s.adapter == nil || now >= s.adapter.NextWake() }

// nextWake returns when a line has a token, or drops a request.
func (s *shaper) nextWake() mono.Time {
	at := mono.Never
	for _, l := range s.busy {
		at = min(at, l.ready, l.queue.NextWake())
	}
	return at
}

// Rates returns the adapter of the workflows' rates, nil without Config.Rates, for
// events at the egress of this process, and for looking at. Only the gate may wake it.
func (g *Gate) Rates(now mono.Time) *rates.Adapter {
	if g.shaper == nil {
		return nil
	}
	return g.shaper.at(now)
}

// SetTerms replaces the terms of all workflows at the gate's rates: see
// rates.Adapter.SetTerms. With mistakes, and for a gate without Config.Rates, it
// returns an error and changes nothing.
func (g *Gate) SetTerms(now mono.Time, terms map[string]rates.Terms) error {
	if g.shaper == nil {
		return errors.New("admission: the gate has no Rates, so there are no terms to set: give it a Config.Rates")
	}
	return g.shaper.at(now).SetTerms(terms)
}

// Announce returns the rate to announce to the sender of t, in requests/s, and false
// if there is none to announce.
func (g *Gate) Announce(t *Ticket) (float64, bool) {
	if g.shaper == nil || g.shaper.adapter == nil {
		return 0, false
	}
	rate := g.shaper.adapter.Announce(t.rated.Workflow, t.From)
	return rate, rate < rates.NoLimit
}

// OnPressure says how one of Config.Rates.Resources is doing, by its place there.
func (g *Gate) OnPressure(resource int, p rates.Pressure) {
	if g.shaper != nil && resource >= 0 && resource+1 < len(g.shaper.pressures) {
		g.shaper.pressures[resource+1] = p
	}
}

// Call counts a call that the request of t makes to another process, and returns the
// demand to tell it.
func (g *Gate) Call(now mono.Time, t *Ticket, to rates.Peer, attempt int) (demand float64) {
	if g.shaper == nil {
		return 0
	}
	a := g.shaper.at(now)
	a.OnCall(now, &t.rated, to, attempt)
	return a.Demand(t.rated.Workflow, to)
}

// OnAnswer takes the rate that a process announced in its answer to a call for t,
// rates.NoLimit if it announced none, and whether it refused the call.
func (g *Gate) OnAnswer(now mono.Time, t *Ticket, from rates.Peer, rate float64, refused bool) {
	if g.shaper == nil {
		return
	}
	a := g.shaper.at(now)
	a.OnRate(now, t.rated.Workflow, from, rate)
	if refused {
		a.OnShed(t.rated.Workflow, from)
	}
}

// shortOfTime is the share of refused requests, beyond those the pool tolerates,
// that is an overload whether or not credits bind: with more connections than
// credits, each holds one, no client waits for one, and the AQM does the work.
const shortOfTime = 0.05

// adapt ends a period of the rates if it is over. While there are credits their
// shortage is the overload, for they keep the queue short.
func (g *Gate) adapt(now mono.Time) {
	a := g.shaper.at(now)
	if now < a.NextWake() {
		return
	}
	period := a.Config().Period
	slots := rates.Pressure{Delay: g.waited(now)}
	if !g.settling() {
		// While the limit settles, the queue is that of a limit which was too high. Counted
		// as an overload, at the start of a server that was offered four times its
		// capacity, it cut the rates to a hundredth for ten seconds (simulation).
		slots.Target = min(g.cfg.MaxDelay, g.worth.wait) / 2
	}
	g.shaper.pressures[slotsResource] = slots
	bound := min(float64(g.bound)/float64(period), 1)
	if g.pool.Refused() > g.tolerated()+shortOfTime {
		bound = 1
	}
	a.OnWake(now, rates.Signals{
		Credits: !g.cfg.NoCredit && g.pool.Clients() > 0, Bound: bound, Resources: g.shaper.pressures,
	})
	g.bound = 0
}

// waited is the queueing delay of the ending period of the rates: the mean of the requests
// that got a slot or, if none did, that of the first in line. The first in line alone would
// be a single sample, and in an order of fairness mostly one of the greediest workflow: with
// a service time of 80 ms and a target of 10 ms that workflow got half of its due.
func (g *Gate) waited(now mono.Time) time.Duration {
	s := g.shaper.waits.End(now)
	if s.Count == 0 {
		return g.Delay(now)
	}
	return g.unseen(now) + max(g.unseen(now), s.Mean) // as in Delay
}
