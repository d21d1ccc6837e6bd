package rates

import "github.com/spillgate/spillgate/internal/mono"

// nameLimit is the longest name of a workflow, service or process, in bytes. A
// longer one is nobody's: the default workflow, or the unnamed peer.
const nameLimit = 256

// Workflow is a workflow's number in one Adapter. The zero Workflow is the
// default one, which collects what has no name and what there is no room for. A
// number that was forgotten counts as the default workflow where something
// arrives, and as nothing elsewhere.
type Workflow uint32

// Peer is a process's number in one Adapter, upstream and downstream alike. The
// zero Peer is the unnamed one: all callers who do not say who they are. A
// number that was forgotten counts as the unnamed one.
type Peer uint32

// Both kinds of numbers hold a place in a table and how often it was reused, so
// that an old number is not taken for the new owner's.
const placeBits = 16

func place(id uint32) int { return int(id & (1<<placeBits - 1)) }

// table gives small numbers to keys. Place 0 is taken from the start and never
// given back.
type table[K comparable] struct {
	byKey map[K]int
	rows  []row[K]
	free  []int
	limit int
	// recent are the places that were found last, by slotOf the name: mostly the next question is about one of them; 0: none.
	recent [recents]int
}

const recents = 8

// slotOf is where the place of a name is noted: most names of a kind differ at their ends.
func slotOf(name string) int {
	if name == "" {
		return 0
	}
	return int(name[len(name)-1]) % recents
}

type row[K comparable] struct {
	key   K
	reuse uint16
	used  bool
	heard mono.Time
}

func newTable[K comparable](limit int) table[K] {
	return table[K]{byKey: map[K]int{}, rows: []row[K]{{used: true}}, limit: limit}
}

// find returns the place of a key with a name.
func (t *table[K]) find(key K, name string) (i int, ok bool) {
	last := &t.recent[slotOf(name)]
	if r := &t.rows[*last]; *last > 0 && r.used && r.key == key {
		return *last, true
	}
	if i, ok = t.byKey[key]; ok {
		*last = i
	}
	return i, ok
}

// add gives a new key a place, or reports that there is none.
func (t *table[K]) add(key K) (i int, ok bool) {
	switch {
	case len(t.free) > 0:
		i = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	case len(t.rows) < t.limit:
		i = len(t.rows)
		t.rows = append(t.rows, row[K]{})
	default:
		return 0, false
	}
	r := &t.rows[i]
	r.key, r.used = key, true
	t.byKey[key] = i
	return i, true
}

func (t *table[K]) remove(i int) {
	r := &t.rows[i]
	delete(t.byKey, r.key)
	var none K
	r.key, r.used = none, false
	r.reuse++
	t.free = append(t.free, i)
}

// oldest returns the place not heard of for longest, 0 if there is none.
func (t *table[K]) oldest() int {
	best := 0
	for i := 1; i < len(t.rows); i++ {
		if r := &t.rows[i]; r.used && (best == 0 || r.heard < t.rows[best].heard) {
			best = i
		}
	}
	return best
}

func (t *table[K]) id(i int) uint32 {
	return uint32(i) | uint32(t.rows[i].reuse)<<placeBits
}

// at returns the place of a number, or 0 and false if it was forgotten.
func (t *table[K]) at(id uint32) (i int, ok bool) {
	i = place(id)
	if i >= len(t.rows) || !t.rows[i].used || t.rows[i].reuse != uint16(id>>placeBits) {
		return 0, false
	}
	return i, true
}
