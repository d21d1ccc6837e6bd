package proxy

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// intake decides whose bytes are worked on next. Before a request asks for a slot, its client has
// cost the proxy's processor something: frames, headers, a handshake. Where the processor is short,
// clients that cost little go before those that cost much, so a flood, of whatever, waits for
// itself:
//
//	bytes came ──▶ a turn, if fewer than most are taken ──▶ parsed ──▶ the turn ends: the next
//	               bytes are read, a handler begins, an answer is written, or longestTurn is over
//	               else wait: the peer that used least goes first ──▶ …
//
// Nothing is refused and nothing is limited: a peer that is alone, or whose bytes nobody else's
// bytes meet, waits for nothing, and a peer of many users, as a balancer or an address that a
// company shares, waits for as much as others use. intake is pure; doorman drives it.
//
// A turn of a peer that used much begins only after the network was looked at: where there is
// always a goroutine to run, Go looks every 10 ms, and the bytes of others would not be known.
type intake struct {
	most    int // turns that are taken at once, at least 1
	taken   []*turn
	lines   [ranks]turnLine // of turns that wait, by the rank of their peers
	waiting int
	uses    uses
	looked  mono.Time // at the network
}

const (
	// longestTurn ends a turn that is taken for longer while others wait: its goroutine waits for
	// something else. The longest work between two reads is 4 KiB of frames, half a millisecond, or
	// the signature of a TLS handshake with RSA, one and a half.
	longestTurn = 2 * time.Millisecond
	// lookEvery is how old a look at the network may be when the turn of a peer that used much
	// begins. A look costs some 10 µs: a fiftieth.
	lookEvery = 500 * time.Microsecond
	// rememberUse is the time after which what a peer used counts 1/e.
	rememberUse = time.Second
	// ranks are how many ranks there are: what a peer used doubles from one to the next, from a
	// 64th of a processor to a whole one.
	ranks      = 8
	leastShare = rememberUse / 64
)

// turn is that of one connection. It belongs to the intake from enter to its end.
type turn struct {
	peer    cells
	free    bool // not counted: a peer that is not known, or believed to speak for many
	rank    int
	from    mono.Time // taken, or waiting, since
	ended   mono.Time
	holds   atomic.Bool // written by the intake alone
	next    *turn
	granted chan struct{} // of the driver
}

// turnLine is turns that wait, the longest first.
type turnLine struct{ first, last *turn }

func (l *turnLine) push(t *turn) {
	if t.next = nil; l.last == nil {
		l.first, l.last = t, t
		return
	}
	l.last.next, l.last = t, t
}

func (l *turnLine) pop() *turn {
	t := l.first
	if l.first = t.next; l.first == nil {
		l.last = nil
	}
	t.next = nil
	return t
}

// enter says that bytes of a connection came. It reports whether its turn is now; else take
// returns it when it is.
func (q *intake) enter(now mono.Time, t *turn) bool {
	if q.waiting == 0 && len(q.taken) == 0 && now.Sub(t.ended) > lookEvery/8 {
		q.looked = now // its goroutine waited for the bytes, and somebody saw them
	}
	t.from, t.rank = now, q.rank(now, t)
	if q.waiting == 0 && len(q.taken) < q.most && q.may(now, t) {
		q.hold(now, t)
		return true
	}
	q.lines[t.rank].push(t)
	q.waiting++
	return false
}

func (q *intake) rank(now mono.Time, t *turn) int {
	if t.free {
		return 0
	}
	return rankOf(q.uses.of(now, t.peer))
}

// rankOf returns the rank of a peer by what it used.
func rankOf(used time.Duration) int { return min(bits.Len64(uint64(used/leastShare)), ranks-1) }

// may reports whether a turn may begin without a look at the network.
func (q *intake) may(now mono.Time, t *turn) bool {
	return t.rank == 0 || now.Sub(q.looked) < lookEvery
}

func (q *intake) hold(now mono.Time, t *turn) {
	t.from = now
	t.holds.Store(true)
	q.taken = append(q.taken, t)
}

// leave ends a turn. One that has ended already is left alone.
func (q *intake) leave(now mono.Time, t *turn) {
	if !t.holds.Load() {
		return
	}
	t.ended = now
	t.holds.Store(false)
	for i, other := range q.taken {
		if other == t {
			last := len(q.taken) - 1
			q.taken[i], q.taken[last] = q.taken[last], nil
			q.taken = q.taken[:last]
			break
		}
	}
	if !t.free {
		q.uses.add(now, t.peer, min(now.Sub(t.from), longestTurn))
	}
}

// take returns a turn that waited and is now, nil if there is none. look says that it would be if
// the network had been looked at.
func (q *intake) take(now mono.Time) (t *turn, look bool) {
	if q.waiting == 0 {
		return nil, false
	}
	for i := len(q.taken) - 1; i >= 0 && len(q.taken) >= q.most; i-- {
		if old := q.taken[i]; now.Sub(old.from) >= longestTurn {
			q.leave(now, old)
		}
	}
	if len(q.taken) >= q.most {
		return nil, false
	}
	t = q.next(now)
	if !q.may(now, t) {
		return nil, true
	}
	q.waiting--
	q.hold(now, q.lines[t.rank].pop())
	return t, false
}

// next returns the first turn of the lowest rank; some wait. Ranks are looked at again where it matters: what a
// peer has used since its turn began to wait puts it behind others, and what has faded before them, so none waits
// for ever.
func (q *intake) next(now mono.Time) *turn {
	for rank := ranks - 1; rank >= 0; rank-- {
		for q.moves(now, rank, -1) {
		}
	}
	for rank := range q.lines {
		for q.moves(now, rank, +1) {
		}
		if first := q.lines[rank].first; first != nil {
			return first
		}
	}
	return nil
}

// moves puts the first turn of a rank where it belongs, if that is in that direction, and reports whether it was so.
func (q *intake) moves(now mono.Time, rank, direction int) bool {
	t := q.lines[rank].first
	if t == nil {
		return false
	}
	is := q.rank(now, t)
	if (is-rank)*direction <= 0 {
		return false
	}
	q.lines[rank].pop()
	t.rank = is
	q.lines[is].push(t)
	return true
}

// sawNetwork says that the network was looked at.
func (q *intake) sawNetwork(now mono.Time) { q.looked = now }

// uses is what each peer used of late, in the time of turns. A peer counts in a cell of each row
// and has what the smaller one says, as in a count-min sketch, so the memory is bounded and a peer
// never seems to have used less than it did. Beside a hundred peers that use much, fewer than one in
// a hundred of the others shares both its cells with some of them.
type uses [2][useCells]used

const useCells = 1024

type used struct {
	time float64 // ns, at
	at   mono.Time
}

// cells is where a peer counts.
type cells [2]uint16

// cellsOf returns the cells of a peer with that hash.
func cellsOf(hash uint64) cells {
	return cells{uint16(hash % useCells), uint16(hash >> 32 % useCells)}
}

func (u *used) value(now mono.Time) float64 {
	if u.time == 0 || now <= u.at {
		return u.time
	}
	return u.time * math.Exp(-float64(now.Sub(u.at))/float64(rememberUse))
}

func (u *uses) of(now mono.Time, c cells) time.Duration {
	return time.Duration(min(u[0][c[0]].value(now), u[1][c[1]].value(now)))
}

func (u *uses) add(now mono.Time, c cells, d time.Duration) {
	for row := range u {
		cell := &u[row][c[row]]
		*cell = used{cell.value(now) + float64(d), now}
	}
}
