package bed

import (
	"context"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// steering drives a share.Controller and gives its weight to a resource. A nil
// steering does nothing.
type steering struct {
	resource resource
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu         sync.Mutex
	controller *share.Controller
}

// steadyMean is the mean work at which a period of the controller is what it is by
// default. With other work it is as many times as long: where all times are a tenth, a
// run is the same and takes a tenth of the time.
const steadyMean = 10 * time.Millisecond

func newSteering(s *world.Service, r resource) (*steering, error) {
	own := time.Duration(0)
	for _, m := range s.Methods {
		own = max(own, ownWork(&m))
	}
	period := time.Duration(float64(share.DefaultPeriod) * float64(own) / float64(steadyMean))
	c, err := share.New(share.Config{Servers: float64(s.Workers), Period: max(period, time.Millisecond)})
	if err != nil {
		return nil, err
	}
	st := &steering{resource: r, stop: make(chan struct{}), controller: c}
	st.stopped.Go(st.run)
	return st, nil
}

// ownWork is the mean time of a method's own steps.
func ownWork(m *world.Method) (d time.Duration) {
	for _, s := range m.Steps {
		for _, draw := range []*world.Draw{s.Wait, s.Compute} {
			if draw != nil {
				d += draw.Mean
			}
		}
	}
	return d
}

// unhindered is the mean time of a method with all that it calls, without any wait.
func (p *plan) unhindered(m *world.Method) time.Duration {
	d := ownWork(m)
	for _, s := range m.Steps {
		longest := time.Duration(0)
		for _, to := range s.Call {
			for i := range p.services[to.Service].Methods {
				if called := &p.services[to.Service].Methods[i]; called.Name == to.Method {
					longest = max(longest, p.unhindered(called))
				}
			}
		}
		d += longest
	}
	return d
}

func (st *steering) run() {
	for {
		st.mu.Lock()
		now := live.Now()
		decision := st.controller.OnWake(now)
		next := st.controller.NextWake()
		st.mu.Unlock()
		st.resource.weigh(decision.Weight)
		select {
		case <-st.stop:
			return
		case <-time.After(max(next.Sub(now), time.Millisecond)):
		}
	}
}

// arrived tells of a request, whose passage the returned function is told when it is over.
// isolated is how long it takes alone.
func (st *steering) arrived(ctx context.Context, isolated time.Duration) (over func(p passage, err error)) {
	if st == nil {
		return func(passage, error) {}
	}
	class, began := live.TagsFrom(ctx).Class, time.Now()
	st.mu.Lock()
	st.controller.OnArrival(class)
	st.mu.Unlock()
	return func(p passage, err error) {
		st.mu.Lock()
		defer st.mu.Unlock()
		// No order keeps who leaves while being served: that of requests that go on alone
		// says how long callers wait.
		waits := p.started.IsZero()
		switch {
		case ctx.Err() != nil && (waits || class == work.Interactive):
			st.controller.OnCancel(class, time.Since(began))
		case err == nil && !waits:
			st.controller.OnDone(class, share.Sample{Latency: time.Since(began), Isolated: isolated, Waited: p.waited(), Service: p.service()})
		}
	}
}

func (st *steering) weight() float64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.controller.Weight()
}

func (st *steering) close() {
	close(st.stop)
	st.stopped.Wait()
}
