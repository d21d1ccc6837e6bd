package live

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/work"
)

// MaxTargets is the most targets that a Calls tells apart. The rest are counted together as
// TargetRest.
const (
	MaxTargets = 64
	TargetRest = "other"
)

// Calls counts what becomes of the requests that a process sends to others, by target: what
// a wallet refuses unsent shows nowhere else. A gate has one, for the clients of its
// handlers (grpcgate.WithCalls, httpgate.CountCalls), and telemetry.Gate.Watch shows it; a
// process without a gate makes its own and passes it to telemetry.WatchCalls. It is ready
// as its zero value; a nil one counts nothing. Its methods may be called at once from any
// goroutine.
type Calls struct {
	mu  sync.Mutex
	all map[string]*Target
}

// Calls returns the count of the requests that handlers behind the gate send.
func (g *Gate) Calls() *Calls { return &g.calls }

// Target returns what counts the requests to a target, nil if c is.
func (c *Calls) Target(name string) *Target {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*Target{}
	}
	if c.all[name] == nil && len(c.all) >= MaxTargets {
		name = TargetRest
	}
	t := c.all[name]
	if t == nil {
		t = &Target{}
		c.all[name] = t
	}
	return t
}

// Each calls f for every target, in the order of their names.
func (c *Calls) Each(f func(name string, t *Target)) {
	c.mu.Lock()
	all := maps.Clone(c.all)
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f(name, all[name])
	}
}

// Fate is what became of one attempt to send a request.
type Fate uint8

const (
	// Answered: the server answered, whatever it said.
	Answered Fate = iota
	// Refused: the server, or one behind it, refused it.
	Refused
	// Unsent: the wallet refused it.
	Unsent
	// Failed: there was no answer.
	Failed

	// NumFates is how many there are.
	NumFates
)

var fateNames = [...]string{Answered: "answered", Refused: "refused", Unsent: "unsent", Failed: "failed"}

// String returns the name of f in metrics.
func (f Fate) String() string {
	if f < NumFates {
		return fateNames[f]
	}
	return "unknown"
}

// Target counts the requests to one target. A nil one counts nothing.
type Target struct {
	counts [NumFates][work.NumReasons]atomic.Uint64

	mu      sync.Mutex
	watched []*watchedClient
}

type watchedClient struct{ look func() ClientState }

// ClientState is a client's credits at a target: Window is how many requests it may have
// outstanding there, if it is Credited, and Waiting how many wait for a credit.
type ClientState struct {
	Window, Waiting int
	Credited        bool
}

// Count notes what became of a request. reason is work.None but for Refused and Unsent.
func (t *Target) Count(f Fate, reason work.Reason) {
	if t != nil && f < NumFates && int(reason) < work.NumReasons {
		t.counts[f][reason].Add(1)
	}
}

// NotSent notes a request for which a wallet gave err in place of a permit.
func (t *Target) NotSent(err error) {
	var r *Refusal
	if t != nil && errors.As(err, &r) {
		t.Count(Unsent, r.Reason)
	}
}

// Counts calls f for each fate and reason that occurred.
func (t *Target) Counts(f func(fate Fate, reason work.Reason, n uint64)) {
	for fate := range t.counts {
		for r := range t.counts[fate] {
			if n := t.counts[fate][r].Load(); n > 0 {
				f(Fate(fate), work.Reason(r), n)
			}
		}
	}
}

// Watch has State ask look, among others, until stop is called.
func (t *Target) Watch(look func() ClientState) (stop func()) {
	if t == nil {
		return func() {}
	}
	w := &watchedClient{look}
	t.mu.Lock()
	t.watched = append(t.watched, w)
	t.mu.Unlock()
	return func() {
		t.mu.Lock()
		t.watched = slices.DeleteFunc(t.watched, func(x *watchedClient) bool { return x == w })
		t.mu.Unlock()
	}
}

// State sums up what the clients of the target have.
func (t *Target) State() (sum ClientState) {
	t.mu.Lock()
	watched := slices.Clone(t.watched)
	t.mu.Unlock()
	for _, w := range watched {
		s := w.look()
		sum.Window += s.Window
		sum.Waiting += s.Waiting
		sum.Credited = sum.Credited || s.Credited
	}
	return sum
}

// Window returns how many requests may be outstanding at the server, and false if it has
// said nothing of that.
func (s *Server) Window() (n int, credited bool) {
	s.wallet.mu.Lock()
	defer s.wallet.mu.Unlock()
	if !s.window.Credited() {
		return 0, false
	}
	return s.window.Limit(), true
}
