package sim

import "github.com/spillgate/spillgate/internal/mono"

// lane is a ring of events that are in order already.
type lane[E any] struct {
	buf  []entry[E] // as long as a power of two
	head int
	n    int
	last mono.Time // the instant of the last one in it, if there is any
}

func (l *lane[E]) first() *entry[E] { return &l.buf[l.head] }

func (l *lane[E]) push(item entry[E]) {
	if l.n == len(l.buf) {
		l.grow()
	}
	l.buf[(l.head+l.n)&(len(l.buf)-1)] = item
	l.n++
	l.last = item.at
}

func (l *lane[E]) pop() {
	l.head = (l.head + 1) & (len(l.buf) - 1)
	l.n--
}

func (l *lane[E]) grow() {
	buf := make([]entry[E], max(16, 2*len(l.buf)))
	n := copy(buf, l.buf[l.head:])
	copy(buf[n:], l.buf[:l.head])
	l.buf, l.head = buf, 0
}
