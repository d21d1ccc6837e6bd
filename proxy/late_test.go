package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/await"
)

// What an upstream answers after the objective is counted as late, in the status and in
// the metrics.
func TestLateAnswersAreCounted(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	cfg := to("http://" + addr)
	cfg.Objective = time.Millisecond
	p := start(t, cfg)
	c := client(t, 1, nil)
	for range 5 {
		get(t, c, p.url)
	}
	served := func() map[string]uint64 { return p.Status().Upstreams[0].Served }
	eventually(t, "the requests to leave", func() bool { return served()["late"]+served()["done"] == 5 })
	if n := served(); n["late"] != 5 {
		t.Errorf("served %v by outcome, expected 5 late", n)
	}
	_, metrics := get(t, c, p.admin+"/metrics")
	if want := `outcome="late",reason="none"} 5`; !strings.Contains(metrics, want) {
		t.Errorf("no %s in\n%s", want, metrics)
	}
}

// A rule gives the requests that match an objective of their own.
func TestObjectivesByRule(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
	}))
	cfg := to("http://" + addr)
	cfg.Objective = time.Millisecond
	cfg.Rules = []classify.Rule{{Match: classify.Match{Path: []string{"/reports/"}}, Set: classify.Set{Objective: time.Hour}}}
	p := start(t, cfg)
	c := client(t, 1, nil)
	served := func() map[string]uint64 { return p.Status().Upstreams[0].Served }
	get(t, c, p.url+"/reports/1")
	eventually(t, "the report to leave", func() bool { return served()["done"]+served()["late"] == 1 })
	get(t, c, p.url+"/other")
	eventually(t, "the other to leave", func() bool { return served()["done"]+served()["late"] == 2 })
	if n := served(); n["done"] != 1 || n["late"] != 1 {
		t.Errorf("served %v by outcome, expected one in time, the report, and one late", n)
	}
	cfg.Listen = []Listener{{Address: "127.0.0.1:0"}}
	cfg.Rules[0].Set.Objective = time.Microsecond
	if all := cfg.Check(); len(all) != 1 || all[0].Field != "rules[0].set.objective" || all[0].Value != "1µs" {
		t.Errorf("mistakes %v, expected one in rules[0].set.objective", all)
	}
}

// An upstream that takes three times the objective is served all the same, and the log and
// the status say that it cannot meet it.
func TestAnObjectiveOutOfReach(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(15 * time.Millisecond)
	}))
	cfg := to("http://" + addr)
	cfg.Objective = 5 * time.Millisecond
	p := start(t, cfg)
	c := client(t, 1, nil)
	answered := 0
	eventually(t, "said that it is out of reach", func() bool {
		if resp, _ := get(t, c, p.url); resp.StatusCode == http.StatusOK {
			answered++
		}
		return p.Status().Upstreams[0].Unreachable
	})
	if answered < 16 {
		t.Errorf("%d requests were answered until then, expected some 32", answered)
	}
	says(t, p, "objective out of reach", "objective=5ms service=")
	if log := p.log.String(); strings.Count(log, "objective out of reach") != 1 {
		t.Errorf("expected one line with the objective and the time:\n%s", log)
	}
}

// Who is refused because the upstream is short gets the status that the configuration says, and
// a drain keeps its own.
func TestOverloadStatus(t *testing.T) {
	addr, entered, leave := waits(t, "/", "ok")
	defer close(leave)
	cfg := to("http://" + addr)
	cfg.Slots, cfg.Objective, cfg.OverloadStatus = Slots{Min: 1, Max: 1}, 20*time.Millisecond, http.StatusTooManyRequests
	p := start(t, cfg)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ask := func() (int, http.Header) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/", nil)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		resp, err := client(t, 1, nil).Do(r)
		if err != nil {
			return 0, nil
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
	all.Go(func() { ask() })
	await.Value(t, entered, "the slot to be in use")
	status, header := 0, http.Header{}
	eventually(t, "a refusal", func() bool { status, header = ask(); return status != 0 })
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" || !strings.Contains(header.Get("Ratelimit"), "capacity") {
		t.Errorf("%d, %v, expected 429 for want of capacity and when to come again", status, header)
	}
	next := p.state.Load().cfg
	next.OverloadStatus = 0
	if _, err := p.Reload(next); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(); status != http.StatusServiceUnavailable {
		t.Errorf("after the reload: %d, expected 503", status)
	}
	next.OverloadStatus = 200
	if all := next.Check(); len(all) != 1 || all[0].Field != "overload_status" {
		t.Errorf("mistakes %v, expected one in overload_status", all)
	}
}

// untimely is a context whose deadline is over, and whose timer has not come yet.
type untimely struct{ context.Context }

func (untimely) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

// A server that breaks off at the deadline of a request, which it was told, has not failed, and the
// answer is that the time is over, also where the timer of the proxy's own context is late.
func TestServersThatKnowTheDeadline(t *testing.T) {
	r, err := http.NewRequestWithContext(untimely{t.Context()}, "GET", "http://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	reset := errors.New("stream error: CANCEL")
	if what := whatFailed(r, reset); what != timedOut {
		t.Errorf("kind %s, expected %s", what, timedOut)
	}
	if what := judge(r, nil, reset); what != saysNothing {
		t.Errorf("it says %d of the upstream, expected nothing (%d)", what, saysNothing)
	}
	if repeatable(r, brokeOff) {
		t.Error("it goes to another upstream")
	}
	r = r.WithContext(t.Context())
	if what := whatFailed(r, reset); what != brokeOff {
		t.Errorf("without a deadline: kind %s, expected %s", what, brokeOff)
	}
}
