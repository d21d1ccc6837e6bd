package credit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// WalletConfig sizes a Wallet. Zero fields take the default named in their
// comment.
type WalletConfig struct {
	// QueueLimit is the most requests that wait for a credit; one more drops the
	// oldest, which has the least time left. Default 1024. Larger keeps more
	// requests that will expire anyway, smaller refuses short bursts. Before a
	// server has granted any, 16 times as many may wait: it may turn out to have none.
	QueueLimit int
	// MaxWait is the longest wait for a credit, or the request's deadline if that is
	// sooner. Default: a sixth of the request's budget or of the servers' objective,
	// whichever is shorter; less, down to a twentieth, where the rest would be shorter
	// than the time that nearly every answer takes, and where timers are Late. A
	// request without a deadline, to servers that did not say their objective, waits
	// without limit. Larger loses fewer requests to short bursts, and gives clients
	// that send now and then more beside those that always have something to send;
	// smaller lets a refused caller know sooner, and costs no goodput in overload, when
	// fresh requests take the credits just as well.
	MaxWait time.Duration
	// FirstFlight is the most requests that are outstanding at first at a server that has answered none; while others wait
	// and it is silent that doubles each 200 ms. Default 8, which a
	// server with credits answers with a grant before it is overloaded. Larger is for a server whose first answers may
	// take long, and which has a limit of its own in front: 8 long polls would hold everything else back.
	FirstFlight int
	// Late is by how much the driver's timers are late at times. A wait then ends
	// sooner, so that a refused caller knows within a fifth of the budget all the
	// same. Default 0.
	Late time.Duration
	// Punctual reports each appearance and each disappearance of demand at once,
	// as a server that does not speculate needs (Config.NoSpeculation). By
	// default only appearances are reported, and no more often than the server
	// says with Grant.Revive: each report costs the server a message.
	Punctual bool
}

// Waiter is one request that waits in a Wallet, or was sent through it. The
// driver allocates it, passes it to Submit and may use it again after its end.
type Waiter struct {
	// Deadline is the instant after which the answer is useless; mono.Never if
	// there is none.
	Deadline mono.Time
	// Workflow is the name of the request's workflow, where servers give each its part of
	// the credits: see OnPart.
	Workflow string
	// Owner is for the driver.
	Owner any

	lane               *lane // nil unless it waits and servers speak of parts
	lanePrev, laneNext *Waiter

	window     *Window
	asked      bool      // the window was unknown when the request was sent
	since      mono.Time // of Submit
	expire     mono.Time // while it waits
	early      bool      // well before one in front of it
	queued     bool
	prev, next *Waiter
}

// Window returns the account through which the request goes, once Submit or
// Next said to send it; nil before.
func (w *Waiter) Window() *Window { return w.window }

// Asked reports whether the request, which was sent, asks for a grant: its client knew none
// of the server. An answer to such a request that carries none says that the server grants none; other
// answers carry a grant only if it says something new.
func (w *Waiter) Asked() bool { return w.asked }

// Waited returns for how long, up to now, the request is on its way: since Submit.
func (w *Waiter) Waited(now mono.Time) time.Duration { return max(now.Sub(w.since), 0) }

// Step is what becomes of a waiter.
type Step uint8

const (
	// Wait: the request stays in the wallet until Next names it.
	Wait Step = iota
	// Send: the request holds a credit of Waiter.Window and must be followed by
	// exactly one Return.
	Send
	// Refuse: the request leaves the wallet unsent.
	Refuse
)

// Wallet holds the requests of one client until a credit of some server is
// free: in order of arrival or, once a server said which part of the credits is for which
// workflow, in these proportions. Several servers that can serve the same requests share one wallet:
// requests go to them in proportion to their free credits. A Wallet is not safe
// for concurrent use, and no call allocates but Open.
type Wallet struct {
	cfg        WalletConfig
	offers     offers // of the servers
	spoken     bool   // some server may have been told of demand by itself
	head, tail *Waiter
	len        int
	latest     mono.Time // at which one of those expires that came since nobody waited
	early      int       // how many of them expire well before one that came earlier,
	soonest    mono.Time // and none of all before this, if there are any
	look       *Waiter   // where expired goes on, nil: from the head, when it is time,
	seen       mono.Time // and when the first expires of those that it has passed
	lanes      lanes
	parted     bool          // a server spoke of parts
	objective  time.Duration // the shortest that a server said; 0: none did
	service    time.Duration // smoothed time from send to reply
	spread     time.Duration // its smoothed absolute deviation
}

// NewWallet returns a wallet without servers, or every mistake in cfg.
func NewWallet(cfg WalletConfig) (*Wallet, error) {
	var errs []error
	if cfg.QueueLimit < 0 {
		errs = append(errs, fmt.Errorf("credit: QueueLimit is %d, expected 1 or more requests, or 0 for the default", cfg.QueueLimit))
	}
	if cfg.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("credit: MaxWait is %v, expected above 0, or 0 for the request's budget alone", cfg.MaxWait))
	}
	if cfg.Late < 0 {
		errs = append(errs, fmt.Errorf("credit: Late is %v, expected 0 or more", cfg.Late))
	}
	if cfg.FirstFlight < 0 {
		errs = append(errs, fmt.Errorf("credit: FirstFlight is %d, expected 1 or more requests, or 0 for the default", cfg.FirstFlight))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if cfg.QueueLimit == 0 {
		cfg.QueueLimit = 1024
	}
	if cfg.FirstFlight == 0 {
		cfg.FirstFlight = firstFlight
	}
	return &Wallet{cfg: cfg}, nil
}

// Open adds a server. Waiting requests may go to it: call Next.
func (l *Wallet) Open() *Window {
	w := &Window{reviveAt: mono.Never, first: l.cfg.FirstFlight}
	l.offers.open(w)
	l.offers.changed(w)
	return w
}

// Close removes a server. Requests outstanding there must still be returned; a
// second call does nothing.
func (l *Wallet) Close(w *Window) {
	if !w.closed {
		w.closed = true
		l.offers.close(w)
		l.heed()
	}
}

// Reset forgets what a server granted, after a reconnect: its new life must
// grant anew.
func (l *Wallet) Reset(w *Window) {
	w.state, w.grant, w.reviveAt, w.told, w.tellAt, w.first = unknown, wire.Grant{}, mono.Never, 0, 0, l.cfg.FirstFlight
	l.offers.changed(w)
}

// Oldest returns the request that waits for longest, nil if none waits.
func (l *Wallet) Oldest() *Waiter { return l.head }

// Len returns the number of waiting requests.
func (l *Wallet) Len() int { return l.len }

// Demand returns what to report to a server of the wallet: its part of the
// waiting requests.
func (l *Wallet) Demand() int {
	if len(l.offers.servers) == 0 {
		return 0
	}
	return (l.len + len(l.offers.servers) - 1) / len(l.offers.servers)
}

// Submit takes a request. With a free credit and no request waiting it is sent at
// once. A wait may push out the oldest waiter: call Next after a Wait.
func (l *Wallet) Submit(now mono.Time, w *Waiter) (Step, work.Reason) {
	w.window, w.since = nil, now
	if w.Deadline <= now {
		return Refuse, work.WalletExpired
	}
	if l.len == 0 {
		if win := l.offers.pick(now); win != nil {
			l.take(now, w, win)
			return Send, work.None
		}
	}
	w.expire = l.expiry(w)
	l.push(w)
	return Wait, work.None
}

// expiry is the instant from which on w does not wait for a credit any more. A
// caller that would wait for many objectives is not helped by an answer that comes
// after one: with deadlines of five objectives at three times the capacity, waits
// of a sixth of the deadline made all answers late (lab run wild/single).
func (l *Wallet) expiry(w *Waiter) mono.Time {
	if l.cfg.MaxWait > 0 {
		return min(w.Deadline, w.since.Add(l.cfg.MaxWait))
	}
	until := w.Deadline
	if l.objective > 0 {
		until = min(until, w.since.Add(l.objective))
	}
	if until == mono.Never {
		return mono.Never
	}
	budget := until.Sub(w.since)
	return w.since.Add(max(min(budget/6, budget/5-l.cfg.Late, budget-l.margin()), budget/20))
}

// heed takes what the servers say of their objectives. The shortest counts, since
// a request may go to any of them; waits that began before end by it too. Where no server that is left says any, the last
// one stays: they may be about to come back.
func (l *Wallet) heed() {
	shortest := time.Duration(0)
	for _, w := range l.offers.servers {
		if o := w.grant.Objective; o > 0 && (shortest == 0 || o < shortest) {
			shortest = o
		}
	}
	if shortest == 0 || shortest == l.objective {
		return
	}
	l.objective = shortest
	l.early, l.latest, l.soonest, l.look = 0, math.MinInt64, mono.Never, nil
	for w := l.head; w != nil; w = w.next {
		w.expire = min(w.expire, l.expiry(w))
		l.date(w)
	}
}

// lateBy is the part of its wait by which a waiter may be refused too late because one in front of it expires later: their
// deadlines are never the same, and to look through all would take as long as there are many.
const lateBy = 8

// date notes when a waiter expires, that those in front of it were dated before.
func (l *Wallet) date(w *Waiter) {
	if w.early = w.expire.Add(w.expire.Sub(w.since)/lateBy) < l.latest; w.early {
		l.early++
	}
	l.latest, l.soonest = max(l.latest, w.expire), min(l.soonest, w.expire)
}

// expired returns a waiter that expires now or has before, nil if there is none. The calls that follow go on where it found one.
func (l *Wallet) expired(now mono.Time) *Waiter {
	if now >= l.head.expire {
		return l.head
	}
	if l.look == nil {
		if l.early == 0 || now < l.soonest {
			return nil
		}
		l.look, l.seen = l.head, mono.Never
	}
	for ; l.look != nil; l.look = l.look.next {
		if now >= l.look.expire {
			return l.look
		}
		l.seen = min(l.seen, l.look.expire)
	}
	l.soonest = max(l.seen, now.Add(time.Duration(l.len)*lookEvery))
	return nil
}

// lookEvery is how long after all waiters were looked through they are not again, for each of them: to look at one takes a
// twentieth of it where 20,000 wait. With 1,024 in line one is refused a third of a millisecond late at most.
const lookEvery = 320 * time.Nanosecond

// unheardMost is how many times QueueLimit may wait before a server has granted any credits.
const unheardMost = 16

// Next returns the next waiter that leaves the queue, to be sent or refused with
// a reason, until it returns nil. Call it after every call that can free a
// credit or end a wait: Submit, Return, OnGrant, Open, OnWake.
func (l *Wallet) Next(now mono.Time) (*Waiter, Step, work.Reason) {
	w := l.head
	switch {
	case w == nil:
		return nil, Wait, work.None
	case l.len > l.cfg.QueueLimit && (l.len > unheardMost*l.cfg.QueueLimit || slices.ContainsFunc(l.offers.servers, (*Window).Credited)):
		l.unlink(w)
		return w, Refuse, work.WalletFull
	}
	if late := l.expired(now); late != nil {
		l.unlink(late)
		return late, Refuse, work.WalletExpired
	}
	win := l.offers.pick(now)
	if win == nil {
		return nil, Wait, work.None
	}
	if w.lane != nil { // what came before any server spoke of parts comes first
		w = l.lanes.first()
	}
	l.take(now, w, win)
	l.unlink(w)
	return w, Send, work.None
}

// Cancel takes a waiter out of the queue whose caller gave up. It reports false
// if the waiter was not waiting any more: it then holds a credit to be returned,
// or was refused.
func (l *Wallet) Cancel(w *Waiter) bool {
	if !w.queued {
		return false
	}
	l.unlink(w)
	return true
}

// Return gives back the credit of a request that was sent: it was answered,
// refused, canceled or lost. served is the time from send to answer if the
// server executed it, else 0. A second call does nothing.
func (l *Wallet) Return(w *Waiter, served time.Duration) {
	if w.window == nil {
		return
	}
	w.window.outstanding--
	l.offers.changed(w.window)
	w.window = nil
	if served > 0 {
		if l.service == 0 {
			l.service, l.spread = served, served/4
		}
		off := served - l.service
		l.service += off / 16
		l.spread += (off.Abs() - l.spread) / 16
	}
}

// margin is the time that an answer takes at most, but for about one in a
// hundred: the mean and four mean deviations, as TCP's retransmission timer has
// it (RFC 6298). A request that waits longer for a credit would be served in
// vain. With the mean alone, 5 % of the answers came late at ten times the
// capacity (simulation, exponential service).
func (l *Wallet) margin() time.Duration { return l.service + 4*l.spread }

// OnPlainReply notes an answer without a grant to a request that Asked for one: a server that
// granted nothing so far has no credits, and is not limited.
func (l *Wallet) OnPlainReply(w *Window) {
	if w.state == unknown {
		w.state = plain
		l.offers.changed(w)
	}
}

// OnGrant takes a grant of a server. It reports whether the grant was the
// newest.
func (l *Wallet) OnGrant(now mono.Time, w *Window, g wire.Grant) bool {
	before := w.grant.Objective
	newest := w.onGrant(now, g)
	if w.grant.Objective != before {
		l.heed()
	}
	l.offers.changed(w)
	return newest
}

// OnPart takes what the answer to a request that was sent says of the part of the credits
// that is for its workflow: see wire.Grant.Part. 0 changes nothing.
func (l *Wallet) OnPart(w *Waiter, part float64) {
	if part > 0 {
		l.parted = true
		l.lanes.hear(w, part)
	}
}

// Unheard is the demand that NextDemand has for a server that has answered nothing yet: there is nothing to tell it, but if the
// driver can find out that it has no credits, without an answer of its own, OnPlainReply frees the requests that wait for one.
const Unheard = -1

// NextDemand names a server that must be told the demand without a request,
// until there is none: it granted no window and has no reply to come, or none
// for long, so it cannot learn of requests that began to wait, or of waiting
// ones that went elsewhere. Call it after the calls that Next follows. The demand is Unheard once the first requests to a
// server have taken long.
func (l *Wallet) NextDemand(now mono.Time) (*Window, int, bool) {
	if l.len == 0 && !l.spoken {
		return nil, 0, false // no server knows of any, and there is none
	}
	for _, w := range l.offers.servers {
		if w.state == plain {
			continue
		}
		if w.outstanding > 0 {
			if l.len == 0 || now < w.quietAt() || w.offered > 0 || now >= w.UnaskedAt() {
				continue
			}
		} else if w.state == unknown || w.grant.Window > 0 {
			continue
		}
		if w.state == unknown {
			if w.told == 0 {
				w.told = 1
				return w, Unheard, true
			}
			continue
		}
		// Appearing and vanishing are news; how much more is not.
		d := l.Demand()
		if (d > 0) == (w.told > 0) {
			continue
		}
		if !l.cfg.Punctual {
			if d == 0 {
				// Not worth a message: a credit that comes in vain is there
				// when the next request comes.
				w.told = 0
				continue
			}
			if now < w.tellAt {
				continue
			}
			w.tellAt = now.Add(w.grant.Revive)
		}
		w.told = d
		l.spoken = true
		return w, d, true
	}
	l.spoken = l.len > 0 || slices.ContainsFunc(l.offers.servers, func(w *Window) bool { return w.told > 0 })
	return nil, 0, false
}

// NextWake returns the instant at which a waiter expires or a server may be
// asked unasked, or mono.Never.
func (l *Wallet) NextWake() mono.Time {
	if l.head == nil {
		return mono.Never
	}
	at := l.head.expire
	if l.early > 0 {
		at = min(at, l.soonest)
	}
	for _, w := range l.offers.servers {
		at = min(at, w.UnaskedAt())
		if w.outstanding > 0 && w.told == 0 {
			at = min(at, max(w.quietAt(), w.tellAt))
		}
	}
	return at
}

func (l *Wallet) take(now mono.Time, w *Waiter, win *Window) {
	win.outstanding++
	win.told, win.heardAt = 0, now
	if l.parted {
		l.lanes.served(w)
	}
	if win.Limit() < win.outstanding { // unasked: not again for as long
		win.reviveAt = now.Add(win.grant.Revive)
	}
	l.offers.changed(win)
	w.window, w.asked = win, win.state == unknown
}

func (l *Wallet) push(w *Waiter) {
	w.queued, w.prev, w.next = true, l.tail, nil
	if l.tail == nil {
		l.head = w
		l.latest, l.soonest = math.MinInt64, mono.Never
	} else {
		l.tail.next = w
	}
	l.tail = w
	l.len++
	l.date(w)
	if l.parted {
		l.lanes.push(w)
	}
}

func (l *Wallet) unlink(w *Waiter) {
	if l.look == w {
		l.look = w.next
	}
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	l.len--
	if w.early {
		w.early = false
		l.early--
	}
	if w.lane != nil {
		l.lanes.remove(w)
	}
}
