package bed

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// Order says which request is next for the workers and the locks of a process.
type Order struct {
	Kind OrderKind
	// Weight is that of the interactive class, 0 to 1; the default class has the rest.
	// Weighted, Lottery and Static read it.
	Weight float64
	// Schedule is the order of Scheduled.
	Schedule schedule.Config
	// InTurn gives the k-th request that gets a worker of an Async service the k-th work
	// that the seed draws, whichever request it is. Then how many are inside at any
	// instant is the same in every order that leaves no worker idle, and so is what all
	// wait together: see Law. All methods of the service should take alike.
	InTurn bool
}

// OrderKind is how an Order ranks requests. All but the first two are of the workers of
// Async services; what else requests wait for is in order of arrival.
type OrderKind uint8

const (
	// ByArrival is one queue in order of arrival.
	ByArrival OrderKind = iota
	// Scheduled is live.Resource in the order of Schedule. The gate's rates watch it if
	// they name it, "workers" or the lock.
	Scheduled
	// Weighted is live.Resource: while both classes wait, what they get has the ratio of
	// their weights. A weight of 1 is priority, up to the largest ratio that package
	// schedule has.
	Weighted
	// Lottery takes from the interactive queue with the probability of its weight while
	// both wait.
	Lottery
	// Static gives each class a part of every worker, which the other cannot use.
	Static
	// Shared is Weighted with the weight that share.Controller finds.
	Shared
)

func (o *Order) check() error {
	low, high := 0.0, 1.0
	if o.Kind == Static {
		low, high = 0.01, 0.99
	}
	if o.Kind > Shared || !(o.Weight >= low && o.Weight <= high) {
		return fmt.Errorf("bed: an order of kind %d and weight %v, expected kind 0 to %d and weight %v to %v", o.Kind, o.Weight, Shared, low, high)
	}
	return nil
}

// turns hands out a number of turns at a time. done gives one back; within is the
// context of what is done meanwhile. Safe for concurrent use.
type turns interface {
	acquire(ctx context.Context) (within context.Context, done func(), err error)
	close()
}

// queue returns what hands out n turns where class does not matter.
func (o *Order) queue(n int) (turns, error) {
	if o.Kind == Scheduled {
		return newResource(n, o.Schedule)
	}
	return newLine(n, -1, 0), nil
}

// line is a queue in order of arrival, or one for each class, between which chance
// decides.
type line struct {
	weight float64 // of the interactive class; negative: one queue for all

	mu     sync.Mutex
	random *rand.Rand
	free   int
	queues [work.NumClasses]list.List // of chan struct{}
}

func newLine(n int, weight float64, seed uint64) *line {
	return &line{weight: weight, free: n, random: rand.New(rand.NewPCG(seed, 0xbb67ae8584caa73b))}
}

func (l *line) acquire(ctx context.Context) (context.Context, func(), error) {
	class := work.Default
	if l.weight >= 0 {
		class = live.TagsFrom(ctx).Class
	}
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return ctx, l.release, nil
	}
	turn := make(chan struct{}, 1)
	place := l.queues[class].PushBack(turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return ctx, l.release, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	select {
	case <-turn: // both at once
		l.mu.Unlock()
		l.release()
	default:
		l.queues[class].Remove(place)
		l.mu.Unlock()
	}
	return ctx, nil, ctx.Err()
}

func (l *line) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queues[work.Default]
	if r := &l.queues[work.Interactive]; r.Len() > 0 && (q.Len() == 0 || l.random.Float64() < l.weight) {
		q = r
	}
	if first := q.Front(); first != nil {
		q.Remove(first)
		first.Value.(chan struct{}) <- struct{}{}
		return
	}
	l.free++
}

func (l *line) close() {}

// resource is turns in the order of a live.Resource.
type resource struct{ *live.Resource }

// mostWait is the most requests that wait for a resource: more than any load of an
// experiment makes wait.
const mostWait = 1 << 16

func newResource(n int, order schedule.Config) (resource, error) {
	r, err := live.NewResource(live.ResourceConfig{Queue: order, Capacity: n, Waiting: mostWait})
	if err != nil {
		return resource{}, fmt.Errorf("bed: %w", err)
	}
	return resource{r}, nil
}

// weigh sets the weight of the interactive class, from 0 to 1. At the ends the ratio
// is the largest that there is. Weights are not scaled up: they are also how long a
// class has its turn (schedule.Config.Quantum).
func (r resource) weigh(weight float64) {
	interactive, standard := max(weight, schedule.MinWeight), max(1-weight, schedule.MinWeight)
	switch weight {
	case 0:
		standard = schedule.MaxWeight
	case 1:
		interactive = schedule.MaxWeight
	}
	r.SetWeight(work.Interactive, interactive)
	r.SetWeight(work.Default, standard)
}

func (r resource) acquire(ctx context.Context) (context.Context, func(), error) {
	hold, err := r.Acquire(ctx, 0)
	if err != nil {
		return ctx, nil, err
	}
	return hold.Context(ctx), hold.Release, nil
}

func (r resource) close() { r.Close() }
