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

// twoWorkers is a server of 100 requests/s: few enough that on a busy machine it is still the server that is short,
// and not the processor.
func twoWorkers(t *testing.T) (url string) {
	t.Helper()
	workers := make(chan struct{}, 2)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		time.Sleep(20 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	return "http://" + addr
}

// crowd sends requests from so many clients at once until the test ends. None is under way while pause is locked.
func crowd(t *testing.T, url string, clients int) (pause sync.Locker) {
	t.Helper()
	var wg sync.WaitGroup
	var under sync.RWMutex
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
				under.RLock()
				resp, err := c.Get(url)
				if err != nil {
					under.RUnlock()
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				under.RUnlock()
				if resp.StatusCode != http.StatusOK {
					time.Sleep(200 * time.Millisecond) // its client tries again
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		await.All(t, &wg, "the clients to end")
	})
	return &under
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
	url := twoWorkers(t)
	cfg := Config{Objective: 100 * time.Millisecond, Upstreams: []Upstream{{Name: "two", URL: url}}}
	p := start(t, cfg)
	const clients = 64
	pause := crowd(t, p.url, clients)
	up := func() *upstream { return p.state.Load().upstreams[0] }
	served := func() uint64 { return up().gate.Stats().Served[work.Done] }
	// At 100/s the longest objective below allows 20 requests at once, and half as many again while that is tried.
	settled := func() bool { s := up().gate.Stats(); return s.Limit <= clients && s.Served[work.Done] > 100 }
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
		pause.Lock() // so that nothing is learned between two looks
		goOn := sync.OnceFunc(pause.Unlock)
		defer goOn() // also where the test ends here: its clients would wait for ever
		eventually(t, "the end of all requests, before "+change.what, func() bool { s := old.gate.Stats(); return s.Running+s.Waiting == 0 })
		limit := max(old.gate.Stats().Limit, untried(t, old))
		next := withRequired(cfg, p)
		next.Objective = cfg.Objective
		if ignored, err := p.Reload(next); err != nil || ignored != nil {
			t.Fatalf("%s: %v, %v", change.what, ignored, err)
		}
		if (up() == old) != change.stays {
			t.Errorf("%s: the gate stays: %v, expected %v", change.what, up() == old, change.stays)
		}
		s := up().gate.Stats()
		goOn()
		// A gate that knows nothing has 256 slots.
		if s.Objective != cfg.Objective || s.Service == 0 || s.Limit > 2*limit {
			t.Errorf("%s: objective %v, service %v, limit %d; expected %v, a known service, and the limit that was %d", change.what, s.Objective, s.Service, s.Limit, cfg.Objective, limit)
		}
		before := served()
		eventually(t, "fifty answers after "+change.what, func() bool { return served() >= before+50 })
	}
}
