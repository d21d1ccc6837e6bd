package httpgate

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// answersFirst is which kinds of requests a target answers before it has their whole body. Work
// on such a request does not wait for its client, so a client that keeps the end of its body back
// would have that work done without a slot:
//
//	the slot is lent while the client is silent ── and the answer begins, no failure
//	                                              └▶ its kind keeps its slots for firstFor
//
// A request that keeps its slot must come at Patience.Rate and Patience.Silence as any does, and
// gives the slot back as any does once its answer begins. Where that does not come while the client is
// silent for an objective, the target waits for the client after all: the slot is lent, and the kind is
// forgotten. Else a few halves of bodies would keep all slots, once one of their kind was answered
// first by chance. Its methods may be called at once from
// any goroutine.
type answersFirst struct {
	known atomic.Bool // there is one; most targets never have any
	mu    sync.Mutex
	until map[string]mono.Time // by kind
}

const (
	// firstFor is how long one such answer counts. Each further one prolongs it; a server that was
	// changed is told apart after that.
	firstFor = 10 * time.Minute
	// mostFirst is how many kinds are remembered. A client that makes up paths can fill them, and
	// each costs it an answer; what is over counts as not known.
	mostFirst = 256
)

// note says that the answer to a request began while the end of its body was missing.
func (a *answersFirst) note(now mono.Time, in *served) {
	kind := in.asks()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = map[string]mono.Time{}
	}
	if _, have := a.until[kind]; !have && len(a.until) >= mostFirst {
		for k, until := range a.until {
			if until <= now {
				delete(a.until, k)
			}
		}
		if len(a.until) >= mostFirst {
			return
		}
	}
	a.until[strings.Clone(kind)] = now.Add(firstFor) // it may be part of a long path
	a.known.Store(true)
}

// forget takes back what note said of requests like in.
func (a *answersFirst) forget(in *served) {
	kind := in.asks()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, kind)
}

// has reports whether the target works on requests like in before it has their whole body.
func (a *answersFirst) has(now mono.Time, in *served) bool {
	if !a.known.Load() {
		return false
	}
	kind := in.asks()
	a.mu.Lock()
	defer a.mu.Unlock()
	return now < a.until[kind]
}
