package live

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// MaxUntagged is the most methods that an Untagged tells apart. The rest are
// counted together as UntaggedRest.
const (
	MaxUntagged  = 64
	UntaggedRest = "other"
)

// Untagged counts the calls that lost the request they were made for: a handler that
// calls with context.TODO() in place of its own context leaves behind class,
// priority, workflow and deadline. Calls without a request do not matter behind a
// gate that admits none with tags; behind one that does, those are counted too that
// have no request, as of a job of its own.
//
// A gate has one, which the server's edge tells of requests. The clients of the
// gate's handlers are given it as an option (grpcgate.WithUntagged,
// httpgate.CountUntagged), for a call that has lost its request does not lead to the
// gate; telemetry.Gate.Watch shows it. It is ready as its zero value; a nil one
// counts nothing. Its methods may be called at once from any goroutine.
type Untagged struct {
	serves atomic.Bool
	mu     sync.Mutex
	counts map[string]uint64
}

// Untagged returns the count of the calls that handlers behind the gate made without
// the request they were serving.
func (g *Gate) Untagged() *Untagged { return &g.untagged }

// Served notes the tags of a request.
func (u *Untagged) Served(t *wire.Tags) {
	if u != nil && !u.serves.Load() && (t.Workflow != "" || t.Class != work.Default || t.Priority != 0 || t.Process != 0) {
		u.serves.Store(true)
	}
}

// Lost reports whether a call made with ctx is one to count: for callers to whom its
// name costs something.
func (u *Untagged) Lost(ctx context.Context) bool {
	return u != nil && u.serves.Load() && !Serving(ctx) && TagsFrom(ctx) == (wire.Tags{})
}

// Called notes a call that is made with ctx.
func (u *Untagged) Called(ctx context.Context, method string) {
	if !u.Lost(ctx) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts == nil {
		u.counts = map[string]uint64{}
	}
	if _, known := u.counts[method]; !known && len(u.counts) >= MaxUntagged {
		method = UntaggedRest
	}
	u.counts[method]++
}

// Each calls f for every method that was counted, in the order of their names.
func (u *Untagged) Each(f func(method string, n uint64)) {
	u.mu.Lock()
	counts := maps.Clone(u.counts)
	u.mu.Unlock()
	for _, method := range slices.Sorted(maps.Keys(counts)) {
		f(method, counts[method])
	}
}
