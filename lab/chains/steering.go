package chains

import (
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// steering drives a share.Controller and gives its weight to a resource. A nil
// steering does nothing.
type steering struct {
	resource resource
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu         sync.Mutex
	controller *share.Controller
	path       []Weighed
}

// Weighed is a decision about the weight of the interactive class.
type Weighed struct {
	At     time.Time `json:"at"`
	Weight float64   `json:"weight"`
	Reason string    `json:"reason"`
}

// mostWeighed is how many decisions are remembered, of the first: more than an
// hour's.
const mostWeighed = 1 << 15

// steady is the mean service time at which a period of the controller is what it is
// by default. With other service times it is as many of them: where all times are a
// tenth, a run is the same and takes a tenth of the time.
const steady = 10 * time.Millisecond

func newSteering(s Setting, r resource) (*steering, error) {
	period := time.Duration(float64(share.DefaultPeriod) * float64(s.Mean) / float64(steady))
	c, err := share.New(share.Config{Servers: float64(s.Workers), Period: max(period, time.Millisecond)})
	if err != nil {
		return nil, err
	}
	st := &steering{resource: r, stop: make(chan struct{}), controller: c}
	st.stopped.Go(st.run)
	return st, nil
}

func (st *steering) run() {
	for {
		st.mu.Lock()
		now := live.Now()
		decision := st.controller.OnWake(now)
		next := st.controller.NextWake()
		if decision.Reason != share.Early && len(st.path) < mostWeighed {
			st.path = append(st.path, Weighed{time.Now(), decision.Weight, decision.Reason.String()})
		}
		st.mu.Unlock()
		st.resource.weigh(decision.Weight)
		select {
		case <-st.stop:
			return
		case <-time.After(max(next.Sub(now), time.Millisecond)):
		}
	}
}

func (st *steering) onArrival(class work.Class) {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.controller.OnArrival(class)
}

// onDone tells of a request that came back from everything it called.
func (st *steering) onDone(class work.Class, p passage, latency, isolated time.Duration) {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.controller.OnDone(class, share.Sample{Latency: latency, Isolated: isolated, Waited: p.waited(), Service: p.service()})
}

// onCancel tells of a request whose caller left. A server knows when a request
// came to it; when its chain began, only the first one does.
func (st *steering) onCancel(class work.Class, after time.Duration) {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.controller.OnCancel(class, after)
}

// weighed returns the decisions so far, none if st is nil.
func (st *steering) weighed() []Weighed {
	if st == nil {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.path)
}

func (st *steering) close() {
	close(st.stop)
	st.stopped.Wait()
}
