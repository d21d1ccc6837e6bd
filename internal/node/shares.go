package node

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// Classes is where classes are learned: a share.Classifier, or something around
// one that several nodes learn in.
type Classes interface {
	Classify(share.Key) work.Class
	Learn(share.Key, share.Course) (isolated time.Duration)
}

// Shares decides what interactive requests get of a process: Classes tell them
// from others, and a share.Controller sets the weights of the two classes.
//
//	Begin: class ─▶ the door ─▶ Admitted ─ handler ─ End
//	                             │ arrivals, who gave up │ what it took
//	                             └──▶ share.Controller ◀─┘
//	                                    │ OnWake
//	                                    └─▶ Weights
//
// It is not safe for concurrent use, but for Classify, which touches only
// Classes. A request costs constant time and allocates for a new key only.
type Shares struct {
	classes    Classes
	controller *share.Controller
	stats      SharesStats
}

// SharesStats is what Shares shows of itself.
type SharesStats struct {
	// Decision is the last that ended a period.
	Decision share.Decision
	// Admitted and GaveUp count requests, by class, since the start: those that
	// were let in to wait or run, and those whose callers left before the end.
	Admitted, GaveUp [work.NumClasses]uint64
	// Keys is how many kinds of requests are remembered, where the driver says so.
	Keys int
}

// NewShares returns shares that know nothing but what classes do, or every mistake
// in cfg.
func NewShares(cfg share.Config, classes Classes) (*Shares, error) {
	controller, err := share.New(cfg)
	return &Shares{classes: classes, controller: controller}, err
}

// Visit is one request's passage, as its class has it. The driver keeps it.
type Visit struct {
	// Class is the class that the request was let in with.
	Class   work.Class
	key     share.Key
	arrived mono.Time
	allowed time.Duration
}

// Classify returns the class of a request with a key whose sender claims one. A
// request that claims work.Interactive keeps it: whether to believe that is the
// edge's affair.
func Classify(c Classes, k share.Key, claimed work.Class) work.Class {
	if claimed == work.Interactive {
		return claimed
	}
	return c.Classify(k)
}

// Begin begins the visit of a request that reached the process at an instant and
// is of use until a deadline, 0 and mono.Never if it has none.
func Begin(k share.Key, class work.Class, arrived, deadline mono.Time) (v Visit) {
	v.Begin(&k, class, arrived, deadline)
	return v
}

// Begin is the function Begin for a v that was used before.
func (v *Visit) Begin(k *share.Key, class work.Class, arrived, deadline mono.Time) {
	if v.Class, v.arrived, v.allowed = class, arrived, 0; v.key != *k {
		v.key = *k
	}
	if deadline != 0 && deadline != mono.Never {
		v.allowed = max(deadline.Sub(arrived), 1)
	}
}

// Admitted counts n requests that were let in to wait or run in this period.
// One that was shed is not counted.
func (s *Shares) Admitted(class work.Class, n int) {
	s.stats.Admitted[Known(class)] += uint64(n)
	s.controller.OnArrivals(class, n)
}

// GaveUp counts a request that was let in and whose caller left after a time.
func (s *Shares) GaveUp(class work.Class, after time.Duration) {
	s.stats.GaveUp[Known(class)]++
	s.controller.OnCancel(class, after)
}

// GaveUpWaiting counts a visit whose caller left before it ran.
func (s *Shares) GaveUpWaiting(now mono.Time, v *Visit) {
	s.Admitted(v.Class, 1)
	s.GaveUp(v.Class, now.Sub(v.arrived))
}

// OnDone takes a request that was completed without a Visit.
func (s *Shares) OnDone(class work.Class, did share.Sample) { s.controller.OnDone(class, did) }

// End takes how a visit ended that was Admitted. queued is how long it waited and
// held for how long it had its slot. Of did, what is 0 is filled in: Service and Own
// are then held, Total is Service. gone says that the caller has left: an
// interactive request that is work.Ignored then gave up.
func (s *Shares) End(now mono.Time, v *Visit, o work.Outcome, queued, held time.Duration, gone bool, did share.Course) {
	switch {
	case o.Executed():
		if did.Service <= 0 {
			did.Service = held
		}
		if did.Own <= 0 {
			did.Own = did.Service
		}
		isolated := s.classes.Learn(v.key, did)
		s.controller.OnDone(v.Class, share.Sample{
			Latency: now.Sub(v.arrived), Isolated: isolated,
			Waited: queued, Service: held, Allowed: v.allowed,
		})
	case o == work.Ignored && v.Class == work.Interactive && gone:
		s.GaveUp(v.Class, now.Sub(v.arrived))
	}
}

// NextWake returns the end of the period; OnWake ends it: see share.Controller.
func (s *Shares) NextWake() mono.Time { return s.controller.NextWake() }

// OnWake ends the period if it is over. Early and repeated calls change nothing and
// return share.Early.
func (s *Shares) OnWake(now mono.Time) share.Decision {
	d := s.controller.OnWake(now)
	if d.Reason != share.Early {
		s.stats.Decision = d
	}
	return d
}

// Weigh tells a queue the weights of the two classes.
func (s *Shares) Weigh(set func(work.Class, float64) bool) {
	weight := s.controller.Weight()
	set(work.Interactive, max(weight, schedule.MinWeight))
	set(work.Default, max(1-weight, schedule.MinWeight))
}

// Stats returns a copy, for display.
func (s *Shares) Stats() SharesStats { return s.stats }

// Known takes a class that does not exist for the default one.
func Known(class work.Class) work.Class {
	if class >= work.NumClasses {
		return work.Default
	}
	return class
}
