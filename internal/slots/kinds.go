package slots

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
	holding int     // slots that requests of kinds hold of which most outlive the objective
	inTime  float64 // share of those in time among the latest of other kinds, 0 while none has ended
}

// Nature is what is known of requests of one kind.
type Nature struct {
	long    bool
	holding int     // slots that they hold
	running int     // with and without a slot
	ends    float64 // the older ones counting half
	over    float64 // of these, those after the objective
}

const (
	// mostKinds is how many kinds are known at most; requests of further ones count as others.
	mostKinds = 64
	// kindLeast is how many ends tell what a kind is, and kindMemory after how many older ones count half.
	kindLeast, kindMemory = 8, 64
	// mostly is the share that outlives the objective from which on a kind is long, and rarely that up to which it is no
	// more: polls are answered early, too.
	mostly, rarely = 0.6, 0.4
	// served is the share of others in time up to which there is nobody to keep slots for; it is that of the latest
	// servedMemory. These are no more than kindLeast, so that of a service that has one kind and becomes slow nobody is long.
	served, servedMemory = 0.5, 8
)

// Empty reports whether no kind is known: then Begin need not be called.
func (k *Kinds) Empty() bool { return len(k.known) == 0 }

// Full reports whether requests of kinds that mostly outlive the objective hold half of the limit's slots, and one more
// would take that of another. Mostly it is false, so that nobody need be asked for a kind.
func (k *Kinds) Full(limit int) bool { return k.inTime > served && k.holding >= max(limit/2, 1) }

// Long reports whether most requests of a kind outlive the objective.
func (k *Kinds) Long(name string) bool {
	n := k.known[name]
	return n != nil && n.long
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

// Outlived says that a request which Begin returned n for, nil if nothing was known of its kind, has given its slot back.
// The name is asked for in the second case alone. It returns what is known of the kind from here on, nil if too many kinds
// are known.
func (k *Kinds) Outlived(n *Nature, name func() string) *Nature {
	if n != nil {
		k.hold(n, -1)
		return n
	}
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
	}
	n.running++
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
func (k *Kinds) End(n *Nature, held, late, told bool) {
	if n != nil {
		n.running--
		if held {
			k.hold(n, -1)
		}
	}
	if !told {
		return
	}
	if n == nil || !n.long {
		k.inTime *= 1 - 1.0/servedMemory
		if !late {
			k.inTime += 1.0 / servedMemory
		}
	}
	if n == nil {
		return
	}
	if n.ends >= kindMemory {
		n.ends, n.over = n.ends/2, n.over/2
	}
	n.ends++
	if late {
		n.over++
	}
	switch {
	case n.long && n.over <= rarely*n.ends:
		n.long = false
		k.holding -= n.holding
	case !n.long && n.ends >= kindLeast && n.over >= mostly*n.ends:
		n.long = true
		k.holding += n.holding
	}
}
