package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/work"
)

// fourWorkers is a server of 800 requests/s, and the most requests that were inside at once since most was 0.
func fourWorkers(t *testing.T) (url string, most *atomic.Int64) {
	t.Helper()
	var inside atomic.Int64
	most = new(atomic.Int64)
	workers := make(chan struct{}, 4)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for {
			if m := most.Load(); now <= m || most.CompareAndSwap(m, now) {
				break
			}
		}
		workers <- struct{}{}
		defer func() { <-workers }()
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	return "http://" + addr, most
}

// crowd sends requests from so many clients at once until the test ends.
func crowd(t *testing.T, url string, clients int) {
	t.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	c := client(t, 1, nil)
	for range clients {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := c.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					time.Sleep(5 * time.Millisecond) // its client tries again
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		await.All(t, &wg, "the clients to end")
	})
}

// A change of any setting keeps what the gates have learned of the servers: the door of an overloaded proxy
// is opened no wider than it was, though 128 clients press against it.
func TestReloadKeepsWhatWasLearned(t *testing.T) {
	url, most := fourWorkers(t)
	cfg := Config{Objective: 100 * time.Millisecond, Upstreams: []Upstream{{Name: "four", URL: url}}}
	p := start(t, cfg)
	const clients = 128
	crowd(t, p.url, clients)
	up := func() *upstream { return p.state.Load().upstreams[0] }
	served := func() uint64 { return up().gate.Stats().Served[work.Done] }
	settled := func() bool { s := up().gate.Stats(); return s.Limit < clients/4 && s.Served[work.Done] > 500 }
	eventually(t, "a gate that knows its server", settled)
	for _, change := range []struct {
		what  string
		to    func(*Config)
		stays bool // the gate
	}{
		{"a longer objective", func(c *Config) { c.Objective = 200 * time.Millisecond }, true},
		{"a shorter objective", func(c *Config) { c.Objective = 80 * time.Millisecond }, true},
		{"health", func(c *Config) { c.Health.Failures = 9 }, false},
		{"the order of requests", func(c *Config) { c.Schedule.Fair = true }, false},
		{"bounds of the slots", func(c *Config) { c.Slots.Max = 1000 }, false},
		{"rates", func(c *Config) { c.Rates.Enabled = true }, false},
	} {
		eventually(t, "a gate that knows its server, before "+change.what, settled)
		change.to(&cfg)
		old := up()
		limit := old.gate.Stats().Limit
		most.Store(0)
		next := withRequired(cfg, p)
		next.Objective = cfg.Objective
		if ignored, err := p.Reload(next); err != nil || ignored != nil {
			t.Fatalf("%s: %v, %v", change.what, ignored, err)
		}
		if (up() == old) != change.stays {
			t.Errorf("%s: the gate stays: %v, expected %v", change.what, up() == old, change.stays)
		}
		if s := up().gate.Stats(); s.Objective != cfg.Objective || s.Service == 0 {
			t.Errorf("%s: objective %v, service %v; expected %v, and a known service", change.what, s.Objective, s.Service, cfg.Objective)
		}
		before := served()
		eventually(t, "a hundred answers after "+change.what, func() bool { return served() >= before+100 })
		// Half as many again are tried at times, and an old gate finishes what it has.
		if n := most.Load(); n > clients/2 {
			t.Errorf("%s: %d requests at once at a server in front of which the limit was %d", change.what, n, limit)
		}
	}
}
