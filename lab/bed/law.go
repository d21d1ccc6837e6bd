package bed

import (
	"time"

	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/work"
)

// Law is what requests waited for the workers of a process, beside what the same arrivals
// and the same work, taken up in the same turn, would have waited in one queue in order
// of arrival. While no worker is idle with work at hand, an order only moves waiting
// from one class to the other, so that the sums are the same.
type Law struct {
	// Arrived, Finished and Abandoned count requests that came for a worker, were done
	// with it, and whose callers left before.
	Arrived, Finished, Abandoned int
	// Worked is the time of workers that they took.
	Worked time.Duration
	Class  [work.NumClasses]Waits
}

// Waits are what requests waited, and what they would have in order of arrival.
type Waits struct{ Waited, FIFO time.Duration }

// Wasted is what all waited longer than in order of arrival.
func (l *Law) Wasted() time.Duration {
	var d time.Duration
	for _, w := range l.Class {
		d += w.Waited - w.FIFO
	}
	return d
}

// Distance is Wasted as a share of what all would have waited in order of arrival. It is
// false if callers gave up, for then the two are not comparable, if there is nothing to
// compare, or if requests are still under way.
func (l *Law) Distance() (float64, bool) {
	var fifo time.Duration
	for _, w := range l.Class {
		fifo += w.FIFO
	}
	if fifo <= 0 || l.Abandoned > 0 || l.Finished != l.Arrived {
		return 0, false
	}
	return l.Wasted().Seconds() / fifo.Seconds(), true
}

// Add adds what another process says.
func (l *Law) Add(m *Law) {
	l.Arrived, l.Finished, l.Abandoned, l.Worked = l.Arrived+m.Arrived, l.Finished+m.Finished, l.Abandoned+m.Abandoned, l.Worked+m.Worked
	for class := range l.Class {
		l.Class[class].Waited += m.Class[class].Waited
		l.Class[class].FIFO += m.Class[class].FIFO
	}
}

// Law returns what all processes of the services say together, since they started.
func (p *Played) Law() Law {
	var sum Law
	for i := range p.Looks {
		l := &p.Looks[i]
		if last := i+1 == len(p.Looks) || p.Looks[i+1].At < l.At; last && l.Law != nil {
			sum.Add(l.Law)
		}
	}
	return sum
}

// passage is a request's way through the workers of a process.
type passage struct{ arrived, started, ended time.Time }

func (p passage) waited() time.Duration  { return p.started.Sub(p.arrived) }
func (p passage) service() time.Duration { return p.ended.Sub(p.started) }

// ledger keeps a Law. It replays arrivals and work in one queue in order of arrival: work
// may come later than its arrival, and comes in the order in which requests are taken
// up.
type ledger struct {
	law     Law
	workers service.Bench // of the replay
	pending []arrival     // whose work has not come yet
}

type arrival struct {
	at    time.Time
	class work.Class
}

func newLedger(workers int) ledger { return ledger{workers: service.NewBench(workers)} }

func (l *ledger) arrive(at time.Time, class work.Class) {
	l.law.Arrived++
	l.pending = append(l.pending, arrival{at, class})
}

// start notes that a request is taken up after some wait, for some work.
func (l *ledger) start(class work.Class, waited, takes time.Duration) {
	l.law.Class[class].Waited += waited
	l.law.Worked += takes
	next := l.pending[0]
	l.pending = l.pending[1:]
	start := l.workers.Take(next.at)
	l.law.Class[next.class].FIFO += start.Sub(next.at)
	l.workers.Give(start.Add(takes))
}
