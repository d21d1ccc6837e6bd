package link

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
)

// Guest is a connection in a Room. R is what tells a client why it must go.
type Guest[R any] interface {
	// Serve serves the connection until it ends.
	Serve()
	// Kick tells the client why it must go, closes the connection, and returns when
	// Serve has ended.
	Kick(reason R)
}

// Room holds the connections of one server. Its methods may be called from any
// goroutine.
type Room[R any] struct {
	most int // connections

	mu      sync.Mutex
	guests  map[Guest[R]]struct{}
	turned  uint64
	closing bool
	serving sync.WaitGroup
}

// NewRoom returns a room for at most that many connections; the next is closed at
// once.
func NewRoom[R any](most int) *Room[R] { return &Room[R]{most: most, guests: map[Guest[R]]struct{}{}} }

// Enter serves nc, as the guest that is made of it, unless the room is full or
// closed.
func (r *Room[R]) Enter(nc net.Conn, guest func(net.Conn) Guest[R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing || len(r.guests) >= r.most {
		r.turned++
		_ = nc.Close()
		return
	}
	g := guest(nc)
	r.guests[g] = struct{}{}
	r.serving.Go(func() {
		g.Serve()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.guests, g)
	})
}

// Kick kicks the guests that which names.
func (r *Room[R]) Kick(reason R, which func(Guest[R]) bool) {
	var kicking sync.WaitGroup
	r.mu.Lock()
	for g := range r.guests {
		if which(g) {
			kicking.Go(func() { g.Kick(reason) })
		}
	}
	r.mu.Unlock()
	kicking.Wait()
}

// Each calls f for every guest.
func (r *Room[R]) Each(f func(Guest[R])) {
	r.mu.Lock()
	guests := slices.Collect(maps.Keys(r.guests))
	r.mu.Unlock()
	for _, g := range guests {
		f(g)
	}
}

// Close kicks everybody and returns when all have gone or ctx has ended.
func (r *Room[R]) Close(ctx context.Context, reason R) error {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.Kick(reason, func(Guest[R]) bool { return true })
		r.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Count returns how many connections there are, and how many were closed because
// there were as many as may be.
func (r *Room[R]) Count() (now int, turned uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.guests), r.turned
}

// Tally counts by name. Names must come from a closed list. Its methods may be
// called from any goroutine, and the zero Tally is empty.
type Tally struct {
	mu sync.Mutex
	n  map[string]uint64
}

// Add counts one.
func (t *Tally) Add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]uint64{}
	}
	t.n[name]++
}

// Get returns a copy of all counts.
func (t *Tally) Get() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}

// Stats are the numbers of a server.
type Stats struct {
	// Connections are those of now, Turned those that were closed because there were
	// as many as may be.
	Connections int
	Turned      uint64
	// Refused counts the messages of clients that were not taken.
	Refused uint64
	// Dropped counts the messages to clients that were dropped, by reason, and Closed
	// the connections that the server closed, by the protocol's code or reason.
	Dropped, Closed map[string]uint64
}
