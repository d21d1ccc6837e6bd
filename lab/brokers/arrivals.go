package brokers

import (
	"math/rand/v2"
	"time"
)

// arrivals are what a generator sends, one after the other: Poisson, by the seed of its order.
type arrivals struct {
	o    order
	rnd  *rand.Rand
	rate float64       // of all streams, in messages/s
	next time.Duration // when the next one is due
}

func newArrivals(o order) *arrivals {
	a := &arrivals{o: o, rnd: rand.New(rand.NewPCG(o.Seed, 0))}
	for _, s := range o.Streams {
		a.rate += s.Rate
	}
	return a
}

// take returns when the next publishers send, of which stream they are, and the number of the first of them there.
func (a *arrivals) take() (at time.Duration, stream, first int) {
	which := a.rnd.Float64() * a.rate
	for ; stream < len(a.o.Streams)-1 && which >= a.o.Streams[stream].Rate; stream++ {
		which -= a.o.Streams[stream].Rate
	}
	n := max(a.o.Together, 1)
	at, first = a.next, a.rnd.IntN(a.o.Streams[stream].Publishers/n)*n
	a.next += time.Duration(a.rnd.ExpFloat64() / a.rate * float64(n) * 1e9)
	return at, stream, first
}

// instants returns when every message is due, in seconds.
func (o order) instants() (all []float64) {
	a := newArrivals(o)
	for a.next < seconds(o.Warmup+o.Measure) {
		at, _, _ := a.take()
		for range max(o.Together, 1) {
			all = append(all, at.Seconds())
		}
	}
	return all
}
