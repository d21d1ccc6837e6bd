package httpgate

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
)

// Long polls of a server without credits are not held back for want of an answer to the first of them.
func TestLongPollsOfAPlainServer(t *testing.T) {
	const many = 500
	var inside atomic.Int64
	release := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside.Add(1)
		<-release
	}))
	rt := Transport(base(t, 2))
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url, nil)
			resp, err := rt.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	eventually(t, "all to be under way", func() bool { return inside.Load() == many })
	close(release)
	await.All(t, &all, "the clients to end")
}

// A caller that closes bodies unread is not held back by a server without credits, and is
// by one with credits.
func TestBodiesClosedUnread(t *testing.T) {
	for _, major := range []int{1, 2} {
		for _, gated := range []bool{false, true} {
			var inside, most atomic.Int64
			release := make(chan struct{})
			h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for n := inside.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				defer inside.Add(-1)
				if r.URL.Path == "/wait" {
					<-release
				}
				io.WriteString(w, "an answer that nobody reads")
			}))
			gate := newGate(t, few(2), nil)
			if gated {
				h = Handler(gate, h)
			}
			s := serve(t, h)
			rt := Transport(base(t, major), Wallet(credit.WalletConfig{MaxWait: time.Minute}))
			ask := func(path string) {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
				resp, err := rt.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			}
			ask("/")
			server := rt.(*transport).latest.server
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() { ask("/wait") })
			}
			if gated {
				eventually(t, "requests to wait for credits", func() bool { return server.Outstanding() > 0 && inside.Load() == 2 })
				time.Sleep(50 * time.Millisecond)
				if n := server.Outstanding(); n > 32 {
					t.Errorf("HTTP/%d: %d requests are under way to a server with 2 slots", major, n)
				}
			} else {
				eventually(t, "all to be under way", func() bool { return inside.Load() == 40 })
			}
			close(release)
			await.All(t, &all, "the clients to end")
			if m := most.Load(); gated && m > 2 {
				t.Errorf("HTTP/%d: %d ran at once in 2 slots", major, m)
			}
		}
	}
}
