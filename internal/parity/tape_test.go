package parity

import (
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// tape is what one policy was told and what it answered, a line an event.
type tape struct {
	mu    sync.Mutex
	zero  mono.Time
	lines []string
}

func (t *tape) note(now mono.Time, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprint(now.Sub(t.zero), " ")+fmt.Sprintf(format, args...))
}

// visitor names a request at a door: the client by the order in which they came, and
// the number of its request.
type visitor struct{ client, number int }

// tapedDoor records a policy of a server. A driver calls one at a time.
type tapedDoor struct {
	baseline.Door
	*tape
	clients map[*credit.Client]int
	arrived map[int]int // by client
	inside  map[*admission.Ticket]visitor
	started map[visitor]mono.Time
	took    map[visitor]time.Duration
	replied map[visitor]int // in which order
	granted []string
}

func newTapedDoor(door baseline.Door, zero mono.Time) *tapedDoor {
	return &tapedDoor{door, &tape{zero: zero}, map[*credit.Client]int{}, map[int]int{}, map[*admission.Ticket]visitor{}, map[visitor]mono.Time{}, map[visitor]time.Duration{}, map[visitor]int{}, nil}
}

func (d *tapedDoor) Connect(now mono.Time) *credit.Client {
	c := d.Door.Connect(now)
	d.clients[c] = len(d.clients)
	d.note(now, "connect")
	return c
}

func (d *tapedDoor) OnDemand(now mono.Time, c *credit.Client, n int) {
	d.note(now, "demand of client %d: %d", d.clients[c], n)
	d.Door.OnDemand(now, c, n)
}

func (d *tapedDoor) NextGrant() (*credit.Client, wire.Grant, bool) {
	c, g, ok := d.Door.NextGrant()
	if ok {
		// A driver may ask before or after what else is due at an instant.
		d.granted = append(d.granted, fmt.Sprintf("client %d: %d", d.clients[c], g.Window))
	}
	return c, g, ok
}

func (d *tapedDoor) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	client := d.clients[t.Client]
	who := visitor{client, d.arrived[client]}
	d.arrived[client]++
	d.inside[t] = who
	demand, budget := t.Demand, t.Budget(now)
	v := d.Door.Arrive(now, t)
	d.decided(now, "arrive", t, v)
	d.note(now, "demand %d, budget %v", demand, budget)
	return v
}

func (d *tapedDoor) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	t, v := d.Door.Next(now)
	if t != nil {
		d.decided(now, "next", t, v)
	}
	return t, v
}

func (d *tapedDoor) decided(now mono.Time, what string, t *admission.Ticket, v admission.Verdict) {
	d.note(now, "%s %v: %v %v", what, d.inside[t], v, t.Reason())
	if v == admission.Run {
		d.started[d.inside[t]] = now
	}
}

func (d *tapedDoor) Leave(now mono.Time, t *admission.Ticket, o work.Outcome) {
	who := d.inside[t]
	d.took[who] = now.Sub(d.started[who])
	d.note(now, "leave %v after %v: %v", who, d.took[who], o)
	d.Door.Leave(now, t, o)
}

func (d *tapedDoor) Feedback(now mono.Time, t *admission.Ticket) baseline.Feedback {
	f := d.Door.Feedback(now, t)
	d.mu.Lock()
	d.replied[d.inside[t]] = len(d.replied)
	d.mu.Unlock()
	d.note(now, "reply to %v: %v, %d credits, %v", d.inside[t], f.Reason, f.Grant.Window, f.Pushback)
	delete(d.inside, t)
	return f
}

// submission is one request as a client meant to send it.
type submission struct {
	at       time.Duration // after the start
	deadline time.Duration // after the start; below 0: none
	priority work.Priority
}

// tapedSender records a policy of a client.
type tapedSender struct {
	*baseline.Wallet
	*tape
	submitted []submission
	let       map[any]int // in which order, by Waiter.Owner
}

func newTapedSender(zero mono.Time) (*tapedSender, error) {
	w, err := baseline.NewWallet(credit.WalletConfig{})
	return &tapedSender{Wallet: w, tape: &tape{zero: zero}, let: map[any]int{}}, err
}

func (s *tapedSender) Submit(now mono.Time, w *credit.Waiter, p work.Priority) (credit.Step, work.Reason) {
	sub := submission{now.Sub(s.zero), -1, p}
	if w.Deadline != mono.Never {
		sub.deadline = w.Deadline.Sub(s.zero)
	}
	s.submitted = append(s.submitted, sub)
	step, reason := s.Wallet.Submit(now, w, p)
	s.note(now, "submit: %v %v", step, reason)
	if step == credit.Send {
		s.letGo(w)
	}
	return step, reason
}

func (s *tapedSender) Next(now mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	w, step, reason := s.Wallet.Next(now)
	if w != nil {
		s.note(now, "next: %v %v", step, reason)
		s.letGo(w)
	}
	return w, step, reason
}

func (s *tapedSender) NextDemand(now mono.Time) (int, bool) {
	n, ok := s.Wallet.NextDemand(now)
	if ok {
		s.note(now, "tell demand %d", n)
	}
	return n, ok
}

func (s *tapedSender) OnReply(now mono.Time, w *credit.Waiter, rtt time.Duration, f baseline.Feedback) {
	s.note(now, "reply after %v: %v, %d credits", rtt, f.Reason, f.Grant.Window)
	s.Wallet.OnReply(now, w, rtt, f)
}

func (s *tapedSender) OnGrant(now mono.Time, g wire.Grant) {
	s.note(now, "grant %d", g.Window)
	s.Wallet.OnGrant(now, g)
}

func (s *tapedSender) letGo(w *credit.Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.let[w.Owner] = len(s.let)
}

// order returns the place of key among those that a policy named.
func order[K comparable](t *tape, places map[K]int, key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return places[key]
}
