package check

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// Config says how closely to look. The zero Config looks after every event.
type Config struct {
	// Every is the number of events between two recounts of the whole world. Default 1.
	// What concerns one ticket or one window is checked always.
	Every int
	// Ordered says that the doors' queues have another order than first in, first
	// out.
	Ordered bool
}

// Checker watches one world. Install its Hooks and Event, then ask Err.
type Checker struct {
	cfg    Config
	events int
	err    error
	doors  map[int]*line
	held   map[int]*holding
}

// line is what waits at a door, as the checker was told.
type line struct {
	queue []*admission.Ticket // in order of arrival; nil for those taken out
	head  int
	place map[*admission.Ticket]int
}

// holding is what an honest client has been told it may have outstanding.
type holding struct {
	window *credit.Window
	// most is the largest limit that explains what is outstanding now.
	most int
	conn *credit.Client
	// unasked is from when one request may go out whatever the window says.
	unasked mono.Time
}

// New returns a checker that has seen nothing.
func New(cfg Config) *Checker {
	if cfg.Every <= 0 {
		cfg.Every = 1
	}
	return &Checker{cfg: cfg, doors: map[int]*line{}, held: map[int]*holding{}}
}

// Err returns the first broken promise, with the time and the number of the
// event after which it was seen.
func (c *Checker) Err() error { return c.err }

// Hooks returns what the world must call, beside Event.
func (c *Checker) Hooks() mesh.Hooks {
	return mesh.Hooks{Decision: c.decision, Canceled: c.canceled, Booted: c.booted}
}

// at returns the line of a process.
func (c *Checker) at(process int) *line {
	l := c.doors[process]
	if l == nil {
		l = &line{place: map[*admission.Ticket]int{}}
		c.doors[process] = l
	}
	return l
}

func (c *Checker) fail(w *mesh.World, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("after %v, event %d: %w", w.Since(), c.events, fmt.Errorf(format, args...))
	}
}

// decision checks the order of the queue.
func (c *Checker) decision(w *mesh.World, process int, t *admission.Ticket, v admission.Verdict, queued bool) {
	l := c.at(process)
	switch {
	case !queued && v == admission.Wait:
		if _, twice := l.place[t]; twice {
			c.fail(w, "check: a ticket that waits arrived again")
		}
		l.place[t] = len(l.queue)
		l.queue = append(l.queue, t)
	case queued:
		at, waits := l.place[t]
		if !waits {
			c.fail(w, "check: a ticket left the queue that did not wait in it, verdict %v", v)
			return
		}
		l.skip()
		if n := l.earlier(at, t); n > 0 && v == admission.Run && !c.cfg.Ordered {
			c.fail(w, "check: a ticket ran before %d that came earlier", n)
		}
		l.remove(t)
	}
	if v == admission.Shed && t.Reason() == 0 {
		c.fail(w, "check: a ticket was shed without a reason")
	}
}

func (c *Checker) canceled(_ *mesh.World, process int, t *admission.Ticket) { c.at(process).remove(t) }

func (c *Checker) booted(_ *mesh.World, process int) {
	delete(c.doors, process)
	clear(c.held)
}

func (l *line) remove(t *admission.Ticket) {
	if at, ok := l.place[t]; ok {
		l.queue[at] = nil
		delete(l.place, t)
	}
}

// earlier counts those in front of t, at a place, that came before it and are of its group: what lay in a socket for
// longer came first although it was read later.
func (l *line) earlier(at int, t *admission.Ticket) int {
	n := 0
	for _, other := range l.queue[l.head:at] {
		if other != nil && other.Group() == t.Group() && other.Arrived <= t.Arrived {
			n++
		}
	}
	return n
}

func (l *line) skip() {
	for l.head < len(l.queue) && l.queue[l.head] == nil {
		l.head++
	}
}

// Event is what the world must call after every event.
func (c *Checker) Event(w *mesh.World) {
	c.events++
	if c.err != nil {
		return
	}
	if c.events%c.cfg.Every == 0 {
		c.books(w)
	}
	w.Links(func(id int, v mesh.LinkView) {
		if s, ok := v.Sender.(interface{ Window() *credit.Window }); ok && v.Up {
			c.window(w, id, v, s.Window())
		} else {
			delete(c.held, id)
		}
	})
}

// books recounts what the world and the gates count.
func (c *Checker) books(w *mesh.World) {
	if err := w.Audit(); err != nil {
		c.fail(w, "%w", err)
	}
	w.Doors(func(_ int, _ mesh.Place, d baseline.Door) {
		if n, ok := d.(*node.Node); ok {
			c.gate(w, n.Gate())
		}
	})
}

func (c *Checker) gate(w *mesh.World, g *admission.Gate) {
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

// window checks that a client keeps to what it was granted. Outstanding
// requests may exceed the present limit, because it fell after they were sent,
// but then they must not grow in number.
func (c *Checker) window(w *mesh.World, id int, v mesh.LinkView, win *credit.Window) {
	if win.Outstanding() != v.Outstanding {
		c.fail(w, "check: client %d counts %d outstanding, the world %d", id, win.Outstanding(), v.Outstanding)
	}
	if win.Outstanding() < 0 || win.Limit() < 0 || win.Limit() > credit.WindowLimit {
		c.fail(w, "check: client %d has %d outstanding and a limit of %d, out of range", id, win.Outstanding(), win.Limit())
	}
	h := c.held[id]
	if h == nil || h.window != win || h.conn != v.Account {
		h = &holding{window: win, conn: v.Account, most: win.Outstanding(), unasked: win.UnaskedAt()}
		c.held[id] = h
	}
	// One request may be sent unasked by a client without credits, or whose window has been used up for long.
	allowed := max(win.Limit(), 1)
	if w.Now() >= h.unasked {
		allowed = max(allowed, h.most+1)
	}
	if win.Outstanding() > max(allowed, h.most) {
		c.fail(w, "check: client %d went to %d outstanding with a limit of %d and %d before", id, win.Outstanding(), win.Limit(), h.most)
	}
	h.most, h.unasked = win.Outstanding(), win.UnaskedAt()
}
