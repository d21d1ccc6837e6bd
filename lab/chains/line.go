package chains

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// line is a queue in order of arrival, or one for each class, between which chance
// decides.
type line struct {
	weight float64 // of the interactive class; negative: one queue for all

	mu     sync.Mutex
	random *rand.Rand
	free   int
	queues [work.NumClasses]list.List // of chan struct{}
}

func newLine(workers int, weight float64, seed uint64) *line {
	return &line{weight: weight, free: workers, random: rand.New(rand.NewPCG(seed, 0xbb67ae8584caa73b))}
}

func (l *line) acquire(ctx context.Context, class work.Class) (func(), error) {
	if l.weight < 0 {
		class = work.Default
	}
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return l.release, nil
	}
	turn := make(chan struct{}, 1)
	place := l.queues[class].PushBack(turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return l.release, nil
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
	return nil, ctx.Err()
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

// newResource gives the interactive class that weight, from 0 to 1.
func newResource(workers int, weight float64) (resource, error) {
	r, err := live.NewResource(live.ResourceConfig{Capacity: workers, Waiting: 1 << 16})
	if err != nil {
		return resource{}, err
	}
	resource{r}.weigh(weight)
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

func (r resource) acquire(ctx context.Context, class work.Class) (func(), error) {
	hold, err := r.Acquire(live.WithTags(ctx, wire.Tags{Class: class}), 0)
	if err != nil {
		return nil, err
	}
	return hold.Release, nil
}

func (r resource) close() { r.Close() }
