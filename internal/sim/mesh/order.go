package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim"
)

// queue orders the calls that wait.
type queue interface {
	push(now mono.Time, c *call)
	// pop takes out the next; drop says that it can no longer be in time.
	pop(now mono.Time) (c *call, drop bool)
	remove(c *call)
	len() int
	// oldest returns since when the first of them has waited.
	oldest() mono.Time
	// expired takes out one that can no longer be in time, nil if there is none;
	// nextWake is when there will be one.
	expired(now mono.Time) *call
	nextWake() mono.Time
}

func (w *World) newQueue() queue {
	ctl := &w.cfg.Control
	if !ctl.ordered() {
		return &line{}
	}
	if ctl.Lottery > 0 {
		w.lotteries++
		return &lottery{weight: ctl.Lottery, chance: sim.Chance(w.cfg.Seed, streamLottery, w.lotteries)}
	}
	var cfg schedule.Config
	if ctl.Queue != nil {
		cfg = *ctl.Queue
	}
	if cfg.Workflows == 0 {
		cfg.Workflows = len(w.cfg.Workflows) + 1 // 0 is the default workflow
	}
	q, err := schedule.New(cfg)
	if err != nil {
		w.err = err
		return &line{}
	}
	return &ordered{q}
}

// line serves in order of arrival.
type line struct {
	head, tail *call
	n          int
}

func (l *line) len() int                { return l.n }
func (l *line) oldest() mono.Time       { return l.head.queuedAt }
func (l *line) expired(mono.Time) *call { return nil }
func (l *line) nextWake() mono.Time     { return mono.Never }

func (l *line) push(_ mono.Time, c *call) {
	c.qPrev, c.qNext = l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.qNext = c
	}
	l.tail = c
	l.n++
}

func (l *line) pop(mono.Time) (*call, bool) {
	c := l.head
	if c != nil {
		l.remove(c)
	}
	return c, false
}

func (l *line) remove(c *call) {
	if c.qPrev == nil {
		l.head = c.qNext
	} else {
		c.qPrev.qNext = c.qNext
	}
	if c.qNext == nil {
		l.tail = c.qPrev
	} else {
		c.qNext.qPrev = c.qPrev
	}
	c.qPrev, c.qNext = nil, nil
	l.n--
}

// ordered serves as a schedule.Queue does. call.task is filled in before push.
type ordered struct{ *schedule.Queue }

func (o *ordered) len() int                    { return o.Len() }
func (o *ordered) push(now mono.Time, c *call) { o.Push(now, &c.task) }
func (o *ordered) remove(c *call)              { o.Remove(&c.task) }
func (o *ordered) oldest() mono.Time           { return o.Oldest().Arrived }
func (o *ordered) expired(now mono.Time) *call { return owner(o.Expired(now)) }
func (o *ordered) nextWake() mono.Time         { return o.NextWake() }

func (o *ordered) pop(now mono.Time) (*call, bool) {
	t, run := o.Next(now)
	return owner(t), !run
}

func owner(t *schedule.Task) *call {
	if t == nil {
		return nil
	}
	return t.Owner.(*call)
}

// settle tells a queue what a call used that it let run.
func settle(q queue, c *call, used time.Duration) {
	if o, ok := q.(*ordered); ok {
		o.Settle(&c.task, used)
	}
}

// fillTask says what the order may know about c, which is about to wait. cost is
// expected at the resource.
func (w *World) fillTask(c *call, cost float64) {
	if !w.cfg.Control.ordered() {
		return
	}
	t, now := &c.task, w.Now()
	so := c.here(now)
	t.Workflow, t.Arrived, t.Deadline, t.Owner = int(c.root.workflow)+1, now, c.deadline, c
	t.Remaining = progress.Remaining(c.stay.Total.Service, c.tags.Elapsed.Service+so.Service)
	t.Total, t.Done = c.stay.Total.Work, c.tags.Elapsed.Work+so.Work
	t.Least, t.Cost, t.Class = max(progress.Remaining(c.stay.Least, so.Service), 1), durationOf(cost), c.class
}
