package check

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/model"
)

// Config says how closely to look. The zero Config looks after every event and
// does not look for starvation.
type Config struct {
	// Every is the number of events between two looks at the whole world.
	// Default 1. What concerns one ticket is checked always.
	Every int
	// Starvation is the longest an honest client may go without a good answer
	// while it has demand, away from faults. Default 0: not checked.
	Starvation time.Duration
	// Calm is the time from which on starvation is checked: after the last
	// fault.
	Calm time.Duration
	// Ordered says that the door's queue has another order than first in, first
	// out.
	Ordered bool
}

// Checker watches one world. Install its Hooks, then ask Err.
type Checker struct {
	cfg     Config
	events  int
	err     error
	queue   []*admission.Ticket // in order of arrival; nil for those taken out
	head    int
	place   map[*admission.Ticket]int
	held    map[int]*holding
	granted int
}

// holding is what an honest client has been told it may have outstanding.
type holding struct {
	window *credit.Window
	// most is the largest limit that explains what is outstanding now.
	most int
	conn *credit.Client
}

// New returns a checker that has seen nothing.
func New(cfg Config) *Checker {
	if cfg.Every <= 0 {
		cfg.Every = 1
	}
	return &Checker{cfg: cfg, place: map[*admission.Ticket]int{}, held: map[int]*holding{}}
}

// Err returns the first broken promise, with the time and the number of the
// event after which it was seen.
func (c *Checker) Err() error { return c.err }

// Hooks returns what the world must call.
func (c *Checker) Hooks() model.Hooks {
	return model.Hooks{Event: c.event, Decision: c.decision, Canceled: c.canceled, Restarted: c.restarted}
}

func (c *Checker) fail(w *model.World, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("after %v, event %d: %w", w.Since(), c.events, fmt.Errorf(format, args...))
	}
}

// decision checks the order of the queue.
func (c *Checker) decision(w *model.World, t *admission.Ticket, v admission.Verdict, queued bool) {
	switch {
	case !queued && v == admission.Wait:
		if _, twice := c.place[t]; twice {
			c.fail(w, "check: a ticket that waits arrived again")
		}
		c.place[t] = len(c.queue)
		c.queue = append(c.queue, t)
	case queued:
		at, waits := c.place[t]
		if !waits {
			c.fail(w, "check: a ticket left the queue that did not wait in it, verdict %v", v)
			return
		}
		c.skip()
		if at != c.head && v == admission.Run && !c.cfg.Ordered {
			c.fail(w, "check: a ticket ran before %d that came earlier", at-c.head)
		}
		c.remove(t)
	}
	if v == admission.Shed && t.Reason() == 0 {
		c.fail(w, "check: a ticket was shed without a reason")
	}
}

func (c *Checker) canceled(_ *model.World, t *admission.Ticket) { c.remove(t) }

func (c *Checker) restarted(*model.World) {
	c.queue, c.head = nil, 0
	clear(c.place)
	clear(c.held)
}

func (c *Checker) remove(t *admission.Ticket) {
	if at, ok := c.place[t]; ok {
		c.queue[at] = nil
		delete(c.place, t)
	}
}

func (c *Checker) skip() {
	for c.head < len(c.queue) && c.queue[c.head] == nil {
		c.head++
	}
}

func (c *Checker) event(w *model.World) {
	c.events++
	if c.err != nil || c.events%c.cfg.Every != 0 {
		return
	}
	if err := w.Audit(); err != nil {
		c.fail(w, "%w", err)
	}
	if g, ok := w.Door().(baseline.Gate); ok {
		c.gate(w, g)
	}
	w.Clients(func(id int, v model.ClientView) { c.client(w, id, v) })
}

func (c *Checker) gate(w *model.World, g baseline.Gate) {
	if err := g.Pool().Check(); err != nil {
		c.fail(w, "%w", err)
	}
	if l := g.Slots(); l.InUse() < 0 || l.Limit() < 1 {
		c.fail(w, "check: %d slots in use of %d", l.InUse(), l.Limit())
	}
	if d := g.Delay(w.Now()); d < 0 {
		c.fail(w, "check: the queueing delay is %v", d)
	}
	// Work conserving: nothing waits while a slot is free.
	if g.Waiting() > 0 && g.Slots().Free() {
		c.fail(w, "check: %d requests wait while %d of %d slots are taken", g.Waiting(), g.Slots().InUse(), g.Slots().Limit())
	}
}

func (c *Checker) client(w *model.World, id int, v model.ClientView) {
	if v.Kind != model.Honest || !v.Up {
		delete(c.held, id)
		return
	}
	if s, ok := v.Sender.(interface{ Window() *credit.Window }); ok {
		c.window(w, id, v, s.Window())
	}
	if c.cfg.Starvation > 0 && w.Since() > c.cfg.Calm && v.Stats.WaitingSince != mono.Never {
		since := max(v.Stats.WaitingSince, w.Now().Add(c.cfg.Calm-w.Since()))
		if waits := w.Now().Sub(since); waits > c.cfg.Starvation {
			c.fail(w, "check: client %d has had demand and no good answer for %v, expected one within %v", id, waits, c.cfg.Starvation)
		}
	}
}

// window checks that a client keeps to what it was granted. Outstanding
// requests may exceed the present limit, because it fell after they were sent,
// but then they must not grow in number.
func (c *Checker) window(w *model.World, id int, v model.ClientView, win *credit.Window) {
	if win.Outstanding() != v.Outstanding {
		c.fail(w, "check: client %d counts %d outstanding, the world %d", id, win.Outstanding(), v.Outstanding)
	}
	if win.Outstanding() < 0 || win.Limit() < 0 || win.Limit() > credit.WindowLimit {
		c.fail(w, "check: client %d has %d outstanding and a limit of %d, out of range", id, win.Outstanding(), win.Limit())
	}
	h := c.held[id]
	if h == nil || h.window != win || h.conn != v.Account {
		h = &holding{window: win, conn: v.Account, most: win.Outstanding()}
		c.held[id] = h
	}
	// One request may be sent unasked by a client without credits.
	allowed := max(win.Limit(), 1)
	if win.Outstanding() > max(allowed, h.most) {
		c.fail(w, "check: client %d went to %d outstanding with a limit of %d and %d before", id, win.Outstanding(), win.Limit(), h.most)
	}
	h.most = win.Outstanding()
}
