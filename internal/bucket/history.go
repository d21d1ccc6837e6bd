package bucket

// history keeps the arrivals of the last moments, so that one can be added anywhere.
//
// Backlog is in nanoseconds of service, of which one is served in each. What a stretch of time does to it
// is out = max(in + add, least): the arrivals less what is served, but never less than what the last of
// them leave behind. Two stretches one after the other are again of that form. So a tree over time holds the
// effect of every stretch of 1, 2, 4 … groups of bins; the backlog before any bin is a handful of these
// applied one after the other, and an arrival changes as many.
//
//	level 2   [      0–3      ][      4–7      ]
//	level 1   [  0–1 ][  2–3  ][  4–5 ][  6–7  ]
//	level 0   [0 ][1 ][2 ][ 3 ][4 ][5 ][6 ][ 7 ]   groups of 8 bins
//
// Time is a ring: a place belongs to the stretch whose number it carries, and one with another number is empty,
// so that time without messages costs nothing.
type history struct {
	tail int64 // the first group that is kept
	base int64 // backlog before it
	// The group at hand. Messages come in runs, each of a connection, so the next one is often here as well; what
	// it adds reaches the tree when another group is at hand.
	cur     int64
	in      int64 // backlog before it
	changed bool
	nodes   [2 * groups]stretch
	bins    [groups * perGroup]bin
}

const (
	perGroup = 8
	// groups is how many are kept: the horizon, its fractions at both ends, and slack.
	groups = 256
	// slack is how many groups are forgotten at a time.
	slack = 4
	// drain is what is served in a bin.
	drain = int64(binWidth)
)

// The horizon fits, or the division by zero does not compile.
const _ = 1 / max(0, groups-slack-1-int64(horizon/binWidth)/perGroup)

// bin is what arrived in one.
type bin struct {
	sum int64
	// own is what the bin's arrivals alone leave at its end, plus drain; that of a bin without any is 0.
	own int64
}

// through returns the backlog at the end of a bin.
func (c bin) through(in int64) int64 { return max(in+c.sum, c.own, drain) - drain }

// stretch is the effect of some time on a backlog.
type stretch struct {
	add, least int64
	id         int64 // its place in time, counted in stretches of its length
}

func (s stretch) of(in int64) int64 { return max(in+s.add, s.least) }

// then returns the effect of s and, after it, of t.
func (s stretch) then(t stretch) stretch {
	return stretch{add: s.add + t.add, least: max(s.least+t.add, t.least)}
}

// start forgets everything: at the start of a group the backlog is base.
func (h *history) start(first, base int64) {
	h.tail, h.cur = first, first
	h.base, h.in, h.changed = base, base, false
}

// node returns the effect of a stretch of 1<<level groups.
func (h *history) node(level int, id int64) stretch {
	size := int64(groups) >> (level & 7)
	s := h.nodes[(size+id&(size-1))&(2*groups-1)]
	if s.id != id {
		s = stretch{add: -drain * perGroup << (level & 7)}
	}
	return s
}

// put changes the effect of a stretch. A place that a later stretch has taken is left to that: the
// earlier one begins before the tail then, so nobody asks for the whole of it.
func (h *history) put(level int, id int64, s stretch) {
	size := int64(groups) >> (level & 7)
	if at := &h.nodes[(size+id&(size-1))&(2*groups-1)]; at.id <= id {
		s.id = id
		*at = s
	}
}

// across returns the backlog before group to, given that before group from, which is not before the tail.
func (h *history) across(from, to, level int64) int64 {
	if last := from + groups - 1; to > last { // whatever arrived, arrived before this one
		return max(0, h.across(from, last, level)-drain*perGroup*(to-last))
	}
	var right stretch // nothing, at first
	for l := 0; from < to; l++ {
		if from&1 == 1 {
			level = h.node(l, from).of(level)
			from++
		}
		if to&1 == 1 {
			to--
			right = h.node(l, to).then(right)
		}
		from, to = from>>1, to>>1
	}
	return right.of(level)
}

// seek makes a group the one at hand.
func (h *history) seek(group int64) {
	if group == h.cur {
		return
	}
	h.flush()
	if group > h.cur {
		h.in = h.across(h.cur, group, h.in)
	} else {
		h.in = h.across(h.tail, group, h.base)
	}
	h.cur = group
}

// at returns a bin and the backlog at its start.
func (h *history) at(group int64, slot int) (*bin, int64) {
	h.seek(group)
	level, bins := h.in, h.group()
	for i := range bins {
		if i == slot {
			break
		}
		level = bins[i].through(level)
	}
	return &bins[slot], level
}

// add adds an arrival to a bin of the group at hand.
func (h *history) add(c *bin, cost, own int64) {
	c.sum, c.own = c.sum+cost, own
	h.changed = true
}

// group returns the bins of the group at hand, emptied if their place was another's.
func (h *history) group() *[perGroup]bin {
	place := h.cur & (groups - 1)
	bins := (*[perGroup]bin)(h.bins[place*perGroup:])
	if s := &h.nodes[groups+place]; s.id != h.cur {
		clear(bins[:])
		*s = stretch{add: -drain * perGroup, id: h.cur}
	}
	return bins
}

// flush brings what the group at hand has become into the tree.
func (h *history) flush() {
	if !h.changed {
		return
	}
	var s stretch
	for _, c := range h.group() {
		s.add += c.sum - drain
		s.least = c.through(s.least)
	}
	id := h.cur
	h.put(0, id, s)
	for l := 1; groups>>l > 1; l++ {
		if id&1 == 0 {
			s = s.then(h.node(l-1, id+1))
		} else {
			s = h.node(l-1, id-1).then(s)
		}
		id >>= 1
		h.put(l, id, s)
	}
	h.changed = false
}

// forget moves the tail on to a group, or a little before it.
func (h *history) forget(to int64) {
	to &^= slack - 1
	if to <= h.tail {
		return
	}
	if h.cur < to {
		h.seek(to)
	}
	if h.cur == to {
		h.base = h.in
	} else {
		h.base = h.across(h.tail, to, h.base)
	}
	h.tail = to
}
