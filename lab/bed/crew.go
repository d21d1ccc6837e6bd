package bed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// crew is the workers of an Async service.
//
// A worker that is woken late starts its next request at the instant at which it should
// have been woken, so that late timers take nothing from the capacity.
type crew struct {
	order Order
	seed  uint64
	lines []turns   // one for all, or one for each class
	parts []float64 // of a worker's speed, for each line
	pace  pace
	steer *steering // nil but for Shared

	mu     sync.Mutex
	idle   []service.Bench // by line
	taken  uint64          // requests so far
	ledger ledger
}

// pace is how work takes its time: finish says when it ends, until waits for that.
type pace struct {
	finish func(start time.Time, takes time.Duration) (end time.Time)
	until  func(time.Time) error
	close  func()
}

// newPace is the pace of real workers; speed says how slow they are at an instant.
func newPace(speed *service.Station) (pace, error) {
	sleep, err := service.New(service.Config{Mean: time.Millisecond}) // without faults
	if err != nil {
		return pace{}, err
	}
	until := func(t time.Time) error { return sleep.DoFor(context.Background(), time.Until(t)) }
	return pace{finish: speed.Finish, until: until, close: sleep.Close}, nil
}

// newCrew makes the workers of s, and closes their pace with them, also if it fails.
func newCrew(s *world.Service, o Order, seed uint64, pace pace) (_ *crew, err error) {
	c := &crew{order: o, seed: seed, parts: []float64{1}, pace: pace, ledger: newLedger(s.Workers)}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := o.check(); err != nil {
		return nil, err
	}
	switch o.Kind {
	case Lottery:
		c.lines = []turns{newLine(s.Workers, o.Weight, seed)}
	case Static:
		c.lines = []turns{newLine(s.Workers, -1, 0), newLine(s.Workers, -1, 0)}
		c.parts = []float64{work.Default: 1 - o.Weight, work.Interactive: o.Weight}
	case Weighted, Shared:
		r, err := newResource(s.Workers, o.Schedule)
		if err != nil {
			return nil, err
		}
		c.lines = []turns{r}
		r.weigh(o.Weight)
		if o.Kind == Shared {
			if c.steer, err = newSteering(s, r); err != nil {
				return nil, err
			}
		}
	default:
		q, err := o.queue(s.Workers)
		if err != nil {
			return nil, err
		}
		c.lines = []turns{q}
	}
	for range c.lines {
		c.idle = append(c.idle, service.NewBench(s.Workers))
	}
	return c, nil
}

// wait waits for a worker and has it wait for as long as the i-th step of a request takes.
// The end of ctx ends the first, not the second: no server stops what it has begun.
func (c *crew) wait(ctx context.Context, d *world.Draw, id uint64, i int) (passage, error) {
	p := passage{arrived: time.Now()}
	class, line := live.TagsFrom(ctx).Class, 0
	if len(c.lines) > 1 {
		line = int(class)
	}
	c.mu.Lock()
	c.ledger.arrive(p.arrived, class)
	c.mu.Unlock()
	_, done, err := c.lines[line].acquire(ctx)
	if err != nil {
		c.mu.Lock()
		c.ledger.law.Abandoned++
		c.mu.Unlock()
		return p, err
	}
	defer done()
	c.start(line, class, &p, func(turn uint64) time.Duration {
		if c.order.InTurn {
			return draw(d, mix(c.seed^mix(turn)), 0)
		}
		return draw(d, id, i)
	})
	err = c.pace.until(p.ended)
	c.mu.Lock()
	c.idle[line].Give(p.ended)
	c.ledger.law.Finished++
	c.mu.Unlock()
	return p, err
}

// start takes the worker that has been idle for longest.
func (c *crew) start(line int, class work.Class, p *passage, takes func(turn uint64) time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.started = c.idle[line].Take(p.arrived)
	drawn := takes(c.taken)
	c.taken++
	c.ledger.start(class, p.waited(), drawn)
	p.ended = c.pace.finish(p.started, time.Duration(float64(drawn)/c.parts[line]))
}

// compute has a worker compute.
func (c *crew) compute(ctx context.Context, do func() error) error {
	if len(c.lines) > 1 {
		return errors.New("bed: static parts of workers that compute, expected workers that wait")
	}
	_, done, err := c.lines[0].acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	return do()
}

// look returns what the ledger says so far.
func (c *crew) look() *Law {
	c.mu.Lock()
	defer c.mu.Unlock()
	law := c.ledger.law
	return &law
}

func (c *crew) close() {
	if c.steer != nil {
		c.steer.close()
	}
	for _, l := range c.lines {
		l.close()
	}
	c.pace.close()
}
