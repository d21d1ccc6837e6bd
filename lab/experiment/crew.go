package experiment

import (
	"context"
	"runtime"
	"sync"
)

// crew lets as many cells run at a time as there are processors, those of all seeds
// together. It is safe for concurrent use.
type crew struct {
	mu       sync.Mutex
	free     int
	waiting  []*turn
	done, of int
	progress func(done, of int, what string)
}

// turn is a cell that waits for a processor.
type turn struct {
	cost  float64
	begin chan struct{} // closed when it may run
}

func newCrew(progress func(done, of int, what string)) *crew {
	return &crew{free: runtime.GOMAXPROCS(0), progress: progress}
}

// expect announces n cells, for the progress.
func (c *crew) expect(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of += n
}

// take waits for a processor; the dearest of those that wait is next. It returns
// false, and there is nothing to give back, if ctx ended first.
func (c *crew) take(ctx context.Context, cost float64) bool {
	if ctx.Err() != nil {
		return false
	}
	c.mu.Lock()
	if c.free > 0 {
		c.free--
		c.mu.Unlock()
		return true
	}
	t := &turn{cost: cost, begin: make(chan struct{})}
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
	select {
	case <-t.begin:
		return true
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.waiting {
		if other == t {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			return false
		}
	}
	c.pass() // its turn came meanwhile
	return false
}

// give returns the processor of a cell that is done.
func (c *crew) give(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if c.progress != nil {
		c.progress(c.done, c.of, name)
	}
	c.pass()
}

// pass hands a processor to the dearest that waits. The lock is held.
func (c *crew) pass() {
	if len(c.waiting) == 0 {
		c.free++
		return
	}
	next := 0
	for i, t := range c.waiting {
		if t.cost > c.waiting[next].cost {
			next = i
		}
	}
	close(c.waiting[next].begin)
	c.waiting = append(c.waiting[:next], c.waiting[next+1:]...)
}
