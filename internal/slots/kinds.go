package slots

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Kinds keeps requests that outlive the objective from holding every slot. Of some kinds most do: polls, streams and
// exports are long by nature, and others wait inside for a key or a pool that the rest does not need. While others end in
// time, those of such kinds hold at most half of the slots:
//
//	one outlives its objective ──▶ Outlived ── its kind is known from here on
//	one comes ───────────────────▶ Full ────── do such kinds hold half of the slots?
//	                               Long ────── is it one of them?
//	one of a known kind begins ──▶ Begin
//	one ends ────────────────────▶ End ─────── share of those that outlive the objective
//
// Each holds a slot for an objective at least, before it is lent. Without this, a few of them that come again at once held
// all of the slots where the limit was low for the sake of others (wild/parts).
//
// A kind is asked for only once one of its requests has outlived its objective. Kinds is not safe for concurrent use. The
// zero Kinds knows none.
type Kinds struct {
	known   map[string]*Nature
	longs   int // of them, kinds of which most outlive the objective
	holding int // slots that requests of these hold
	ends    uint64
	rest    Nature    // what is known of all other kinds
	came    mono.Time // when a request came last of a kind that is not long
}

// Nature is what is known of requests of one kind.
type Nature struct {
	long    bool
	holding int     // slots that they hold
	running int     // with and without a slot
	ends    float64 // the older ones counting half
	over    float64 // of these, those after the objective
	last    uint64  // its last end in time, of all ends
}

const (
	// mostKinds is how many kinds are known at most; requests of further ones count as others.
	mostKinds = 64
	// kindLeast is how many ends tell what a kind is, and kindMemory after how many older ones count half.
	kindLeast, kindMemory = 8, 64
	lonely                = 16
	// mostly is the share that outlives the objective from which on a kind is long, and rarely that up to which it is no
	// more: polls are answered early, too.
	mostly, rarely = 0.6, 0.4
	// served is the share of others in time up to which there is nobody to keep slots for; it is that of the latest
	// servedMemory. These are no more than kindLeast, so that of a service that has one kind and becomes slow nobody is long.
	served = 0.5
)

// Empty reports whether no kind is known: then Begin need not be called.
func (k *Kinds) Empty() bool { return len(k.known) == 0 }

// Full reports whether requests of kinds that mostly outlive the objective hold half of the limit's slots, and one more
// would take that of another. Mostly it is false, so that nobody need be asked for a kind.
func (k *Kinds) Full(limit int) bool { return k.longs > 0 && k.holding >= k.share(limit) }

// share is how many slots each of the kinds may hold of which most outlive the objective.
func (k *Kinds) share(limit int) int { return max(limit/2/k.longs, 1) }

// Crowds reports whether most requests of a kind outlive the objective, and hold their share of the limit's slots.
func (k *Kinds) Crowds(name string, limit int) bool {
	n := k.known[name]
	return n.Long() && n.holding >= k.share(limit)
}

// Long reports whether most requests of a kind outlive the objective.
func (k *Kinds) Long(name string) bool {
	n := k.known[name]
	return n != nil && n.long
}

// ByNature reports whether nearly all requests of a kind outlive the objective.
func (k *Kinds) ByNature(name string) bool {
	n := k.known[name]
	return n != nil && n.long && n.over >= 0.9*n.ends
}

// Long reports whether most requests of the kind outlive the objective.
func (n *Nature) Long() bool { return n != nil && n.long }

// Came says that a request of a kind has come, and reports whether it is of one of which most outlive the objective. If none
// of the others came for a while, all kinds are as the others.
func (k *Kinds) Came(now mono.Time, name string, objective time.Duration) bool {
	if !k.known[name].Long() {
		k.came = now
		return false
	}
	if now.Sub(k.came) > lonely*objective {
		for _, n := range k.known { //lint:ordered all
			n.long, n.ends, n.over = false, 0, 0
		}
		k.longs, k.holding = 0, 0
		return false
	}
	return true
}

// Begin says that a request of a kind begins to hold a slot, and returns what is known of that, nil if nothing is.
func (k *Kinds) Begin(name string) *Nature {
	n := k.known[name]
	if n != nil {
		n.running++
		k.hold(n, 1)
	}
	return n
}

// Outlived says that a request which Begin returned n for, nil if nothing was known of its kind, holds a slot and has just
// outlived its objective. The name is asked for in the second case alone. It returns what is known of the kind from here
// on, nil if too many kinds are known.
func (k *Kinds) Outlived(n *Nature, name func() string) *Nature {
	if n == nil {
		if k.known == nil {
			k.known = map[string]*Nature{}
		}
		kind := name()
		if n = k.known[kind]; n == nil {
			if len(k.known) >= mostKinds && !k.forget() {
				return nil
			}
			n = &Nature{}
			k.known[kind] = n
			k.rest = Nature{} // it was one of these
		}
		n.running++
		k.hold(n, 1)
	}
	k.tell(n, true)
	return n
}

// Lent says that a request which Outlived returned n for has given its slot back.
func (k *Kinds) Lent(n *Nature) {
	if n != nil {
		k.hold(n, -1)
	}
}

// forget makes room for a kind by the one that is known least, and reports whether it could.
func (k *Kinds) forget() bool {
	var least *Nature
	which := ""
	for name, n := range k.known { //lint:ordered the least of all, by name where equal, is the same in any order
		if n.long || n.running > 0 {
			continue
		}
		if least == nil || n.ends < least.ends || n.ends == least.ends && name < which {
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

// End says that a request has ended which Begin or Outlived returned n for, nil for one of no known kind. It held a slot
// at last, or none. late says that it outlived its objective; told is false if its end tells nothing.
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
	if n == nil && !k.Empty() {
		n = k.known[name()]
	}
	if n == nil {
		k.rest.tell(late)
		n = &k.rest
	} else if !late {
		k.tell(n, false)
	}
	if !late {
		n.last = k.ends
	}
}

// tell counts a request of a kind that has outlived its objective, or ended before.
func (k *Kinds) tell(n *Nature, over bool) {
	n.tell(over)
	switch {
	case n.long && n.over <= rarely*n.ends:
		n.long = false
		k.holding -= n.holding
		k.longs--
	case !n.long && n.ends >= kindLeast && n.over >= mostly*n.ends && k.others(n):
		n.long = true
		k.holding += n.holding
		k.longs++
	}
}

func (n *Nature) tell(over bool) {
	if n.ends >= kindMemory {
		n.ends, n.over = n.ends/2, n.over/2
	}
	n.ends++
	if over {
		n.over++
	}
}

// others reports whether requests of another kind end in time lately.
func (k *Kinds) others(n *Nature) bool {
	if k.serves(&k.rest) {
		return true
	}
	for _, o := range k.known { //lint:ordered any
		if o != n && !o.long && k.serves(o) {
			return true
		}
	}
	return false
}

// serves reports whether most of a kind end in time, one lately.
func (k *Kinds) serves(n *Nature) bool {
	return n.over <= served*n.ends && n.last > 0 && k.ends-n.last < kindMemory
}
