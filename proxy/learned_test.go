package proxy

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// fourWorkers is a server of 800 requests/s.
func fourWorkers(t *testing.T) (url string) {
	t.Helper()
	workers := make(chan struct{}, 4)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	return "http://" + addr
}

// crowd sends requests from so many clients at once until the test ends.
func crowd(t *testing.T, url string, clients int) {
	t.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	keeps := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(keeps.CloseIdleConnections)
	c := &http.Client{Transport: keeps, Timeout: await.Patience}
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
					time.Sleep(50 * time.Millisecond) // its client tries again
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		await.All(t, &wg, "the clients to end")
	})
}

// untried is the limit that u's gate hands on: the one it has, or during a trial the one at which that began.
func untried(t *testing.T, u *upstream) int {
	cfg := u.made.gated()
	cfg.Learned = u.gate.Learned()
	next, err := live.NewGate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	return next.Stats().Limit
}

// A change of any setting keeps what the gates have learned of the servers: the door of an overloaded proxy
// is opened no wider than it was.
func TestReloadKeepsWhatWasLearned(t *testing.T) {
	url := fourWorkers(t)
	cfg := Config{Objective: 100 * time.Millisecond, Upstreams: []Upstream{{Name: "four", URL: url}}}
	p := start(t, cfg)
	const clients = 128
	crowd(t, p.url, clients)
	up := func() *upstream { return p.state.Load().upstreams[0] }
	served := func() uint64 { return up().gate.Stats().Served[work.Done] }
	settled := func() bool { s := up().gate.Stats(); return s.Limit <= clients/2 && s.Served[work.Done] > 200 }
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
		{"rates", func(c *Config) { c.Rates.Enabled = true }, false},
	} {
		eventually(t, "a gate that knows its server, before "+change.what, settled)
		change.to(&cfg)
		old := up()
		limit := max(old.gate.Stats().Limit, untried(t, old))
		next := withRequired(cfg, p)
		next.Objective = cfg.Objective
		if ignored, err := p.Reload(next); err != nil || ignored != nil {
			t.Fatalf("%s: %v, %v", change.what, ignored, err)
		}
		if (up() == old) != change.stays {
			t.Errorf("%s: the gate stays: %v, expected %v", change.what, up() == old, change.stays)
		}
		// A gate that knows nothing has 256 slots. Half as many again are tried at times.
		if s := up().gate.Stats(); s.Objective != cfg.Objective || s.Service == 0 || s.Limit > 2*limit {
			t.Errorf("%s: objective %v, service %v, limit %d; expected %v, a known service, and the limit that was %d", change.what, s.Objective, s.Service, s.Limit, cfg.Objective, limit)
		}
		before := served()
		eventually(t, "fifty answers after "+change.what, func() bool { return served() >= before+50 })
	}
}
