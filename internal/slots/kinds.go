package slots

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Kinds keeps requests that outlive the objective from taking the slots of others. Of some kinds most do: polls, streams
// and exports are long by nature, and others wait inside for a key or a pool that the rest does not need.
//
//	one outlives its objective ──▶ Outlived ── its kind is known from here on
//	it gives its slot back ──────▶ Lent
//	one comes ───────────────────▶ Long ────── is it of a kind of which most outlive the objective, while others do not?
//	                               Full ────── do such requests hold as much as they may?
//	one of a known kind begins ──▶ Begin
//	one ends ────────────────────▶ End ─────── share of those that outlive the objective
//
// All such kinds together may hold half of the limit's slots, or as much beside them: see Limit.Beside. Without this, a few
// polls that come again at once held every slot where the limit was low for the sake of others, and their times passed for
// those of the service (wild/parts: the goodput of the worst twentieth was 0.60 and 0.62 of the best semaphore's, not 0.78
// and 0.71).
//
// The names of kinds are asked for once a request has outlived its objective, and rarely before. Kinds is not safe for
// concurrent use. The zero Kinds knows none.
type Kinds struct {
	known   map[string]*Nature
	longs   int       // of them, kinds of which most outlive the objective
	holding int       // slots that requests of these hold
	came    mono.Time // when a request of another kind came last while there were such kinds, 0 for never
	ends    uint64    // requests that have ended
	rest    Nature    // what is known of all unknown kinds
	quick   string    // one of these, of which a request ended in time
	doubted bool      // most of a kind outlive the objective, but nobody is known to end in time
	tidied  mono.Time // when long kinds that nobody asked for were told from the others last
}

// Nature is what is known of requests of one kind.
type Nature struct {
	long    bool
	asked   bool    // one came since Kinds.tidied, or since it is long
	holding int     // slots that they hold
	running int     // with and without a slot
	told    float64 // those that have ended in time or outlived the objective, the older ones counting half
	over    float64 // of these, those that have outlived it
	inTime  uint64  // the last that ended in time, counted in Kinds.ends; 0 for none
}

const (
	// mostKinds is how many kinds are known at most; requests of further ones count as others.
	mostKinds = 64
	// kindLeast is how many requests tell what a kind is, and kindMemory after how many older ones count half.
	kindLeast, kindMemory = 8, 64
	// mostly is the share that outlives the objective from which on a kind is long, and rarely that up to which it is no
	// more: polls are answered early, too. From nearly on the kind is so by nature. Those that wait for each other are quick
	// before they are many.
	mostly, rarely, nearly = 0.6, 0.4, 0.9
	// lonely is for how many objectives nothing else may come before no kind counts as long, because what has all slots
	// for itself need not hold half of them.
	lonely = 16
	// unasked is for how many objectives nobody must ask for a long kind until it counts no more: a task that comes once a
	// minute stays long where the objective is 100 ms. Without this, ten exports of a night left a poll one slot of 24 for good.
	unasked = 4096
)

// Empty reports whether no kind is known: then Begin need not be called.
func (k *Kinds) Empty() bool { return len(k.known) == 0 }

// Any reports whether most requests of some kind outlive the objective: otherwise Long need not be called.
func (k *Kinds) Any() bool { return k.longs > 0 }

// Long returns what is known of a kind of which a request comes, if most of them outlive the objective, and nil otherwise.
func (k *Kinds) Long(now mono.Time, name string, objective time.Duration) *Nature {
	if now.Sub(k.tidied) > unasked*objective {
		k.tidy(now)
	}
	n := k.known[name]
	if n == nil || !n.long {
		k.came = now
		return nil
	}
	n.asked = true
	if k.came == 0 {
		k.came = now
	}
	if now.Sub(k.came) <= lonely*objective {
		return n
	}
	for _, n := range k.known { //lint:ordered all alike
		n.long, n.told, n.over = false, 0, 0
	}
	k.longs, k.holding = 0, 0
	return nil
}

// tidy takes long kinds for others again that nobody asked for since the last time.
func (k *Kinds) tidy(now mono.Time) {
	k.tidied = now
	for _, n := range k.known { //lint:ordered each on its own
		if n.long && !n.asked && n.running == 0 {
			n.long, n.told, n.over = false, 0, 0
			k.longs--
		}
		n.asked = false
	}
}

// Natural reports whether nearly all requests of a kind outlive the objective.
func (n *Nature) Natural() bool { return n != nil && n.long && n.over >= nearly*n.told }

// Full reports whether requests of a kind of which most outlive the objective hold as much as they may, and by so many
// more: an equal part of half of the limit's slots, and each kind one as long as all of them hold no more than the limit.
// Without that one, polls that come again at once would keep out a kind that was slow for a while.
func (k *Kinds) Full(n *Nature, limit, more int) bool {
	kinds := max(k.longs, 1)
	return n.holding >= max(limit/2/kinds, 1)+more || k.holding >= max(limit/2, min(kinds, limit), 1)+more
}

// Begin says that a request of a kind begins to hold a slot, or to run beside, and returns what is known of that, nil if
// nothing is.
func (k *Kinds) Begin(name string) *Nature {
	n := k.known[name]
	if n != nil {
		k.Join(n)
	}
	return n
}

// Join is Begin for a request of which Long has returned what is known of its kind.
func (k *Kinds) Join(n *Nature) {
	n.running++
	k.hold(n, 1)
}

// Outlived says that a request which Begin returned n for, nil if nothing was known of its kind, holds a slot and has just
// outlived its objective. The name is asked for in the second case alone. It returns what is known of the kind from here
// on, nil if too many kinds are known.
func (k *Kinds) Outlived(n *Nature, name func() string) *Nature {
	if n == nil {
		if n = k.meet(name()); n == nil {
			return nil
		}
		k.Join(n)
	}
	n.tell(true)
	k.judge(n)
	return n
}

// meet returns what is known of a kind from here on, nil if too many are known.
func (k *Kinds) meet(name string) *Nature {
	n := k.known[name]
	if n != nil || len(k.known) >= mostKinds && !k.forget() {
		return n
	}
	if len(k.known) > 0 || k.quick == "" || k.quick == name {
		k.rest = Nature{} // it was one of these
	}
	if k.known == nil {
		k.known = map[string]*Nature{}
	}
	n = &Nature{}
	k.known[name] = n
	return n
}

// forget makes room for a kind by the one that is known least, and reports whether it could.
func (k *Kinds) forget() bool {
	var least *Nature
	which := ""
	for name, n := range k.known { //lint:ordered the least of all, by name where equal, is the same in any order
		if n.long || n.running > 0 {
			continue
		}
		if least == nil || n.told < least.told || n.told == least.told && name < which {
			least, which = n, name
		}
	}
	delete(k.known, which)
	return least != nil
}

// hold counts slots of a kind.
func (k *Kinds) hold(n *Nature, by int) {
	if n.holding += by; n.long {
		k.holding += by
	}
}

// Lent says that a request which Outlived returned n for holds no slot any more, but runs on.
func (k *Kinds) Lent(n *Nature) {
	if n != nil {
		k.hold(n, -1)
	}
}

// End says that a request has ended which Begin or Outlived returned n for, nil for one of no known kind. It held a slot
// at last, or none. late says that it outlived its objective; told is false if its end tells nothing. The name is asked for
// where n is nil, while any kind is known and rarely before.
func (k *Kinds) End(n *Nature, name func() string, held, late, told bool) {
	if n != nil {
		n.running--
		if held {
			k.hold(n, -1)
		}
	}
	if !told {
		return
	}
	k.ends++
	switch {
	case n != nil:
	case !k.Empty():
		n = k.known[name()]
	case !late && (k.ends <= kindLeast || k.ends%kindMemory == 0):
		k.quick = name()
	}
	if n == nil {
		n = &k.rest
	}
	if !late {
		n.inTime = k.ends
	}
	if n == &k.rest || !late { // what is late was told before
		n.tell(late)
	}
	if n != &k.rest {
		k.judge(n)
	}
	if k.doubted && !late && k.served(n) { // which is what was missing
		k.doubted = false
		for _, n := range k.known { //lint:ordered each on its own
			k.judge(n)
		}
	}
}

// tell counts one that has ended in time, or outlived its objective.
func (n *Nature) tell(over bool) {
	if n.told >= kindMemory {
		n.told, n.over = n.told/2, n.over/2
	}
	n.told++
	if over {
		n.over++
	}
}

// judge decides whether a kind is one of which most outlive the objective. While nobody else ends in time the service is
// slow, which is no nature.
func (k *Kinds) judge(n *Nature) {
	switch {
	case n.long && n.over <= rarely*n.told:
		n.long = false
		k.holding -= n.holding
		k.longs--
	case n.long || n.told < kindLeast || n.over < mostly*n.told:
	case !k.othersInTime(n):
		k.doubted = true
	default:
		n.long, n.asked, k.came = true, true, 0
		k.holding += n.holding
		k.longs++
	}
}

// othersInTime reports whether at least half of another kind end in time, one lately.
func (k *Kinds) othersInTime(n *Nature) bool {
	for _, o := range k.known { //lint:ordered any
		if o != n && k.served(o) {
			return true
		}
	}
	return k.served(&k.rest)
}

// served reports whether a kind is not long, and at least half of it end in time, one lately.
func (k *Kinds) served(n *Nature) bool {
	return !n.long && n.over <= n.told/2 && n.inTime > 0 && k.ends-n.inTime < kindMemory
}
