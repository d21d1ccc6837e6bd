package proxy

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// tellAt is the change of the weight, as a logarithm, that the log is told of.
// Smaller ones are in the metrics.
const tellAt = 0.25

// steering is the part of an upstream that is about classes.
type steering struct {
	// loose is how many requests hold no slot because they made calls; tight counts
	// those that kept theirs because there were too many.
	loose, tight atomic.Int64
	shares       atomic.Pointer[live.Shares] // nil: the weights are fixed
	decisions    [share.NumReasons]atomic.Int64
	by           *Config // that the weights follow; with the lock of the proxy
	told         float64 // weight that the log knows; of one goroutine at a time
}

// gated describes the gate of an upstream as gate does, with the slots that the
// configuration allows.
func (c *Config) gated() live.GateConfig {
	out := live.GateConfig{Config: c.gate(), Mode: c.Mode, Shares: c.shares(), NoTurns: c.noTurns()}
	out.Slots.Min, out.Slots.Max = c.Slots.Min, c.Slots.Max
	return out
}

// steer begins to divide the gate's slots between the classes as next has it, if it
// does not already. The proxy's lock is held.
func (u *upstream) steer(next *Config, classes *live.Classes) error {
	if have := u.shares.Load(); u.by != nil && u.by.Share.steersAs(next.Share) && (have == nil || have.Classes() == classes) {
		return nil
	}
	u.unsteer()
	weight := 0.5
	switch next.Share.Order {
	case LearnedShare:
		s, err := live.NewShares(u.gate, live.SharesConfig{Config: next.controller(), Classes: classes, Decided: u.decided})
		if err != nil {
			return err
		}
		u.shares.Store(s)
	case FixedShare:
		weight = next.Share.Weight
	case OnePriority:
		weight = 1
	}
	if next.Share.Order != LearnedShare && (next.Share.Order != NoClasses || u.by != nil) {
		u.weigh(weight)
	}
	by := *next
	u.by = &by
	return nil
}

// unsteer leaves the weights as they are.
func (u *upstream) unsteer() {
	if s := u.shares.Swap(nil); s != nil {
		s.Close()
	}
}

// weigh sets the weight of the interactive class, from 0 to 1. Weights are not
// scaled up, because they are also how long a class has its turn; but priority is
// the largest ratio that there is.
func (u *upstream) weigh(weight float64) {
	interactive := max(weight, schedule.MinWeight)
	if weight == 1 {
		interactive = schedule.MaxWeight
	}
	u.gate.SetWeight(work.Interactive, interactive)
	u.gate.SetWeight(work.Default, max(1-weight, schedule.MinWeight))
}

// decided takes a decision about the weight, one at a time.
func (u *upstream) decided(d share.Decision) {
	if int(d.Reason) < share.NumReasons {
		u.decisions[d.Reason].Add(1)
	}
	if u.told == 0 {
		u.told = 0.5
	}
	log := u.p.log.Debug
	if math.Abs(math.Log(d.Weight/u.told)) >= tellAt {
		log, u.told = u.p.log.Info, d.Weight
	}
	log("weight of interactive requests", "upstream", u.name, "weight", d.Weight, "want", d.Want, "neutral", d.Neutral, "reason", d.Reason.String())
}

func (u *upstream) onArrival(class work.Class) {
	if s := u.shares.Load(); s != nil {
		s.OnArrival(class)
	}
}

func (u *upstream) onDone(class work.Class, did share.Sample) {
	if s := u.shares.Load(); s != nil {
		s.OnDone(class, did)
	}
}

func (u *upstream) onCancel(class work.Class, after time.Duration) {
	if s := u.shares.Load(); s != nil {
		s.OnCancel(class, after)
	}
}
