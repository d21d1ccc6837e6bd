package proxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// under runs a load of three tenants against p while change is called n times, and
// returns the requests that were answered. Every one must be.
func under(t *testing.T, p *running, n int, change func(i int)) (answered int64) {
	t.Helper()
	var count, lost atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 6 {
		c := client(t, 1+i%2, nil)
		tenant := []string{"acme", "slow", "new"}[i%3]
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if resp, body := ask(t, c, p.url, "X-Tenant", tenant); resp.StatusCode != 200 || body != "ok" {
					lost.Add(1)
					t.Errorf("%s: %d %s", tenant, resp.StatusCode, body)
				}
				count.Add(1)
			}
		})
	}
	for i := range n {
		before := count.Load()
		eventually(t, "twenty more answers", func() bool { return count.Load() >= before+20 || lost.Load() > 0 })
		change(i)
	}
	close(stop)
	await.All(t, &wg, "the clients to end")
	return count.Load()
}

func slowly(t *testing.T) string {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	return "http://" + addr
}

// New weights, guarantees, deadlines and ranks, workflows that come and go: under a
// load no request is lost, and the gate stays, with all that it has counted.
func TestReloadOfTermsUnderLoad(t *testing.T) {
	cfg := byTenant(slowly(t))
	cfg.Workflows["slow"] = Workflow{Deadline: time.Minute}
	cfg.Schedule.Fair = true
	cfg.Rates = Rates{Enabled: true, Period: 5 * time.Millisecond}
	p := start(t, cfg)
	up := p.state.Load().upstreams[0]
	answered := under(t, p, 30, func(i int) {
		next := cfg
		next.Workflows = cloned(cfg.Workflows)
		next.Workflows["acme"] = Workflow{Weight: float64(i%4) + 1, Guarantee: float64(i % 3), Deadline: time.Duration(i+1) * time.Minute, Priority: work.Priority(i % 5)}
		if i%2 == 0 {
			next.Workflows["new"] = Workflow{Weight: 2, Guarantee: 5}
			delete(next.Workflows, "slow")
		}
		if ignored, err := p.Reload(withRequired(next, p)); err != nil || ignored != nil {
			t.Errorf("reload %d: %v, %v", i, ignored, err)
		}
	})
	if p.state.Load().upstreams[0] != up {
		t.Error("there is a new gate")
	}
	if s := up.gate.Stats(); int64(s.Served[work.Done]) != answered {
		t.Errorf("the gate has served %d, the clients have %d answers", s.Served[work.Done], answered)
	}
	var terms struct{ acme, slow float64 }
	for _, s := range up.gate.Rates(nil) {
		switch s.Name {
		case "acme":
			terms.acme = s.Offered
		case "slow":
			terms.slow = s.Offered
		}
	}
	if terms.acme == 0 || terms.slow == 0 {
		t.Errorf("what was learned is gone: %+v", up.gate.Rates(nil))
	}
}

// A gate that cannot stay is replaced under a load without a request lost.
func TestReloadOfGatesUnderLoad(t *testing.T) {
	cfg := byTenant(slowly(t))
	cfg.Workflows["slow"] = Workflow{}
	cfg.Rates = Rates{Enabled: true, Period: 5 * time.Millisecond}
	p := start(t, cfg)
	up := p.state.Load().upstreams[0]
	under(t, p, 10, func(i int) {
		next := cfg
		next.Health.Failures = i + 3
		if _, err := p.Reload(withRequired(next, p)); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
	})
	if p.state.Load().upstreams[0] == up {
		t.Error("the gate stayed")
	}
}

// A request that waits for the rate of its workflow when its gate is replaced is
// answered all the same.
func TestReplacedGateFinishesWhatItShapes(t *testing.T) {
	limit := wire.Header(wire.Reply{Process: 9, Service: "s", HasRate: true, Rate: 2}.Append(nil))
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.HeaderName, limit)
		io.WriteString(w, "ok")
	}))
	cfg := byTenant("http://" + addr)
	cfg.Rates = Rates{Enabled: true, Period: 5 * time.Millisecond}
	p := start(t, cfg)
	old := p.state.Load().upstreams[0]
	c := client(t, 1, nil)
	eventually(t, "the upstream's limit", func() bool {
		ask(t, c, p.url, "X-Tenant", "acme")
		for _, s := range old.gate.Rates(nil) {
			if s.Name == "acme" && s.Limited() {
				return true
			}
		}
		return false
	})
	answers := make(chan string, 3) // one may find a token
	for range cap(answers) {
		go func() {
			resp, body := ask(t, c, p.url, "X-Tenant", "acme")
			answers <- fmt.Sprint(resp.StatusCode, " ", body)
		}()
	}
	eventually(t, "requests that wait for their rate", func() bool { return old.gate.Stats().Shaping >= 2 })
	cfg.Health.Failures = 3
	if _, err := p.Reload(withRequired(cfg, p)); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if got := await.Value(t, answers, "an answer"); got != "200 ok" {
			t.Errorf("a request that waited: %s", got)
		}
	}
	if n := old.gate.Stats().Shed; n != [work.NumReasons]uint64{} {
		t.Errorf("refused: %v", n)
	}
}
