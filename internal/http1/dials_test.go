package http1

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// held are the dials of a client that wait for what becomes of them, the first that began first.
type held struct {
	mu  sync.Mutex
	all []chan error
}

func (h *held) hold(cfg *Config) {
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		end := make(chan error)
		h.mu.Lock()
		h.all = append(h.all, end)
		h.mu.Unlock()
		if err := <-end; err != nil {
			return nil, err
		}
		return dial(ctx)
	}
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// end ends the n-th dial.
func (h *held) end(n int, err error) {
	h.mu.Lock()
	end := h.all[n]
	h.mu.Unlock()
	end <- err
}

// Requests that give up on a server which answers no dial leave few dials behind, and the next one waits for one of these.
func TestDialsOfRequestsThatGaveUp(t *testing.T) {
	other := errors.New("the server is another one")
	for name, ends := range map[string]error{"succeeds": nil, "fails": other, "is of another kind": ErrOther} {
		t.Run(name, func(t *testing.T) {
			var dials held
			c := serve(t, echo).client(dials.hold)
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				if _, err := c.RoundTrip(request(t, "GET", nil).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				cancel()
			}
			eventually(t, "dials of the first requests", func() bool { return dials.count() >= spareDials })
			if n := dials.count(); n != spareDials {
				t.Fatalf("%d dials are under way, expected %d", n, spareDials)
			}
			done := make(chan error, 1)
			go func() {
				_, _, err := get(t, c, request(t, "GET", nil))
				done <- err
			}()
			eventually(t, "request that waits", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.wants) == 1
			})
			for n := range spareDials {
				dials.end(n, ends)
			}
			if ends == ErrOther { // it has its own dial then
				eventually(t, "dial of its own", func() bool { return dials.count() == spareDials+1 })
				dials.end(spareDials, nil)
			}
			if err := await.Value(t, done, "the answer"); ends == other != errors.Is(err, other) || ends != other && err != nil {
				t.Errorf("the request ends with %v", err)
			}
			eventually(t, "end of all dials", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.spare)+len(c.wants) == 0
			})
		})
	}
}
