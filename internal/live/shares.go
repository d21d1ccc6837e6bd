package live

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// SharesConfig describes Shares. The zero value is a start for a gate with one
// slot.
type SharesConfig struct {
	// Config is the controller's. Servers should be about the gate's slots.
	share.Config
	// Classifier is how classes are learned, if Classes is nil.
	Classifier share.ClassifierConfig
	// Classes, if set, is where classes are learned, together with whoever else has
	// it. Default nil: on one's own.
	Classes *Classes
	// Decided, if set, is told every decision that ends a period, early ones left
	// out. It is called on a goroutine of its own, outside of all locks; decisions
	// come one at a time and in order. It must not block.
	Decided func(share.Decision)
}

// check returns every mistake in c; nil has none.
func (c *SharesConfig) check() error {
	if c == nil {
		return nil
	}
	_, err := share.New(c.Config)
	_, errClass := share.NewClassifier(c.Classifier)
	return errors.Join(err, errClass)
}

// Shares sets what interactive requests get of a Gate's slots, on the real clock: a
// node.Shares with a lock and a timer. A gate with GateConfig.ClassShares has one and
// tells it of its requests. With NewShares somebody else does, as the proxy, which
// sees more of a request than its gate.
//
// All its methods may be called at once from any goroutine. A request of a gate with
// ClassShares costs two locks beside the gate's, and a third while any kind is interactive or has an override.
type Shares struct {
	weigh   func(work.Class, float64) bool
	decided func(share.Decision)
	classes *Classes
	// admitted counts what was admitted since the core was told, so that a request need not take the lock for it.
	admitted [work.NumClasses]atomic.Int64

	mu      sync.Mutex
	core    *node.Shares
	timer   *time.Timer
	closed  bool
	running sync.WaitGroup // of the timer's function
}

// SharesStats is what Shares shows of itself.
type SharesStats = node.SharesStats

// NewShares begins to set the class weights of a gate, or returns every mistake in
// cfg. One gate takes one Shares at a time. Close ends it.
func NewShares(g *Gate, cfg SharesConfig) (*Shares, error) {
	classes, errClass := cfg.Classes, error(nil)
	if classes == nil {
		classes, errClass = NewClasses(cfg.Classifier)
	}
	core, err := node.NewShares(cfg.Config, classes)
	if err := errors.Join(err, errClass); err != nil {
		return nil, err
	}
	s := &Shares{weigh: g.SetWeight, decided: cfg.Decided, classes: classes, core: core}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.period(Now())
	s.running.Add(1)
	s.timer = time.AfterFunc(s.due(), s.onTimer)
	return s, nil
}

// Close ends the changes of weights; they stay as they are. It waits until Decided
// has returned, and so must not be called by it. Requests that are under way may
// still end. Further calls do nothing.
func (s *Shares) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.timer.Stop() {
			s.running.Done()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}

// due returns how long it is until the period ends. It is called with the lock
// held.
func (s *Shares) due() time.Duration { return max(s.core.NextWake().Sub(Now()), 0) }

// period ends a period if it is over, with the lock held. The gate's lock is taken
// inside of this one, and never the other way round.
func (s *Shares) period(now mono.Time) share.Decision {
	s.tell()
	d := s.core.OnWake(now)
	s.core.Weigh(s.weigh)
	return d
}

// admit counts a request that was let in. It takes no lock: the core only adds such requests up until a period
// ends.
func (s *Shares) admit(class work.Class) { s.admitted[node.Known(class)].Add(1) }

// tell tells the core of what was admitted. It is called with the lock held.
func (s *Shares) tell() {
	for class := range s.admitted {
		if n := s.admitted[class].Swap(0); n > 0 {
			s.core.Admitted(work.Class(class), int(n))
		}
	}
}

func (s *Shares) onTimer() {
	defer s.running.Done()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	d := s.period(Now())
	s.mu.Unlock()
	if s.decided != nil && d.Reason != share.Early {
		s.decided(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
		s.timer.Reset(s.due())
	}
}

// Stats returns a copy, for display.
func (s *Shares) Stats() SharesStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell()
	stats := s.core.Stats()
	stats.Keys, _ = s.classes.Keys()
	return stats
}

// Explain returns the class of requests with this key, and why, for display.
func (s *Shares) Explain(k share.Key) share.Verdict { return s.classes.Explain(k) }

// Classes returns where classes are learned.
func (s *Shares) Classes() *Classes { return s.classes }

// OnArrival, OnDone and OnCancel tell of a request of a gate without ClassShares, as
// share.Controller has it: that it was let in to wait or run, and that it was
// completed, or that its caller left before the end. A class that does not exist
// counts as work.Default.
func (s *Shares) OnArrival(class work.Class) { s.admit(class) }

// OnDone is explained at OnArrival.
func (s *Shares) OnDone(class work.Class, did share.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.OnDone(class, did)
}

// OnCancel is explained at OnArrival. after is how long the caller waited.
func (s *Shares) OnCancel(class work.Class, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.GaveUp(class, after)
}
