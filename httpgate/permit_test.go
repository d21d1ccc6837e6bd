package httpgate

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// How long a refusal took says nothing about how long the server works on a request.
func TestARefusalIsNoSampleOfService(t *testing.T) {
	s := newRefusing(t)
	rt := Transport(base(t, 1)).(*transport)
	for _, shed := range []bool{false, true} {
		if shed {
			s.left.Store(1)
		}
		resp, x, err := rt.send(get(t, t.Context(), s.url), 0, live.Now())
		if err != nil || (x.shed != nil) != shed {
			t.Fatalf("refused %v, expected %v; %v", x.shed != nil, shed, err)
		}
		if x.served > 0 == shed {
			t.Errorf("refused %v: the server worked on it for %v", shed, x.served)
		}
		if !shed { // what the trailer of gRPC says comes after the header
			x.take(http.Header{field: {encodeField(wire.Reply{HasShed: true, Shed: *s.shed.Load()}.Append(nil), false)}})
			if x.shed == nil || x.served != 0 {
				t.Errorf("refused in the trailer (%v): the server worked on it for %v", x.shed, x.served)
			}
		}
		resp.Body.Close()
	}
}

// A server that grants nothing is not limited once its first answer has come.
func TestPlainServerIsNotLimited(t *testing.T) {
	const many = 60 // more than a first flight, and than what is sent unasked meanwhile
	var inside atomic.Int64
	release := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			inside.Add(1)
			<-release
		}
	}))
	rt := Transport(base(t, 1))
	send(t, rt, get(t, t.Context(), s.url))
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			if resp, err := rt.RoundTrip(get(t, t.Context(), s.url+"/hold")); err == nil {
				resp.Body.Close()
			}
		})
	}
	defer await.All(t, &wg, "the clients to end")
	defer close(release)
	eventually(t, "all requests to be at the server", func() bool { return inside.Load() == many })
}

// A request that gets no credit does not use its server any more: the server can be
// forgotten.
func TestARequestWithoutCreditUsesNoServer(t *testing.T) {
	s := newRefusing(t)
	rt := Transport(base(t, 1)).(*transport)
	send(t, rt, get(t, t.Context(), s.url))
	only := rt.latest
	only.server.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 0, Revive: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := rt.RoundTrip(get(t, ctx, s.url))
		failed <- err
	}()
	eventually(t, "the request to wait for a credit", func() bool { return only.wallet.Waiting() == 1 })
	cancel()
	var refusal *live.Refusal
	if err := await.Value(t, failed, "the request to end"); !errors.As(err, &refusal) || refusal.Reason != work.Canceled {
		t.Fatalf("%v, expected a refusal as the caller left", err)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if n := only.users; n != 0 {
		t.Errorf("%d users of the server, expected none", n)
	}
}

// A server that somebody uses is not forgotten, however long ago the last request began.
func TestAServerInUseIsNotForgotten(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-release
	}))
	rt := Transport(base(t, 1)).(*transport)
	done := make(chan struct{})
	go func() {
		defer close(done)
		send(t, rt, get(t, t.Context(), s.url))
	}()
	await.Value(t, inside, "a request to reach the handler")
	rt.mu.Lock()
	rt.evict(live.Now().Add(time.Hour), 0)
	during := len(rt.hosts)
	rt.mu.Unlock()
	close(release)
	await.Value(t, done, "the request to end")
	rt.CloseIdleConnections()
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if after := len(rt.hosts); during != 1 || after != 0 {
		t.Errorf("%d servers known during the request and %d after it, expected 1 and 0", during, after)
	}
}

// With HoldStreams(0) an answer gives its slot back with its first flush.
func TestFlushGivesTheSlotBack(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	release := make(chan struct{})
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-release
	}), HoldStreams(0)))
	resp, err := base(t, 1).RoundTrip(get(t, t.Context(), s.url))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer close(release)
	eventually(t, "the slot to be back", func() bool { return gate.Stats().Running == 0 })
	if n := gate.Stats().Served[work.Released]; n != 1 {
		t.Errorf("%d requests ended as no sample, expected 1", n)
	}
}

// An answer whose caller read for more than half of the time says nothing about the
// server.
func TestASlowReaderIsNoSample(t *testing.T) {
	took := live.Now().Sub(0) // since the origin of the clock, when a ticket began that says nothing: an hour or more
	for _, tt := range []struct {
		blocked time.Duration // of sixty
		want    work.Outcome
	}{{0, work.Done}, {29, work.Done}, {31, work.Released}, {59, work.Released}} {
		w := &writer{in: served{Context: t.Context()}, slow: &slowReader{blocked: tt.blocked * took / 60}}
		if got := w.result(true); got != tt.want {
			t.Errorf("%d of 60 parts of the time in writing: %v, expected %v", tt.blocked, got, tt.want)
		}
	}
}
