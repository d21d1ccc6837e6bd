package engine

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// firstQueue is the capacity of a lane's queue when its first message waits. It
	// doubles up to the limit and stays.
	firstQueue = 64
	// maxShift is how far a message that is due early moves forward in the queue.
	// What would go further takes the instant of the one it stops behind.
	maxShift = 64
)

// waiter is a message that waits.
type waiter struct {
	due, stamp mono.Time
	kept       *Kept
	from       *Batch
	id         uint16
}

// queue is a ring of waiters in order of their instants, those of one instant in
// order of arrival.
type queue struct {
	ring  []waiter // its length is a power of two
	first int
	n     int
	bytes int
}

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) *waiter { return &q.ring[(q.first+i)&(len(q.ring)-1)] }

func (q *queue) head() *waiter { return q.at(0) }

// fits reports whether one more message of size bytes may wait.
func (q *queue) fits(size, most, mostBytes int) bool {
	return q.n < most && (q.bytes+size <= mostBytes || q.n == 0)
}

// push puts w behind all that are due before it, and behind all of the same
// publisher.
func (q *queue) push(w waiter) {
	if q.n == len(q.ring) {
		q.grow()
	}
	i := q.n
	q.n++
	for ; i > 0; i-- {
		before := q.at(i - 1)
		if before.due <= w.due {
			break
		}
		if before.from == w.from || q.n-i > maxShift {
			w.due = before.due
			break
		}
		*q.at(i) = *before
	}
	*q.at(i) = w
	q.bytes += w.kept.size()
}

// stretch multiplies what is left of every wait, to centuries at most.
func (q *queue) stretch(now mono.Time, by float64) {
	for i := range q.n {
		if w := q.at(i); w.due > now {
			w.due = now.Add(time.Duration(min(float64(w.due.Sub(now))*by, 1<<62)))
		}
	}
}

func (q *queue) grow() {
	ring := make([]waiter, max(firstQueue, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.first = ring, 0
}

func (q *queue) pop() waiter {
	w := *q.head()
	*q.head() = waiter{}
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
	q.bytes -= w.kept.size()
	return w
}
