package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The rule alone, with a clock of its own.
func TestHealth(t *testing.T) {
	spare := true
	h := health{rule: Health{Failures: 3, Pause: time.Second}}
	at := mono.Time(0)
	note := func(r result) string {
		left, back := h.note(at, at, r, func(result) bool { return spare })
		return fmt.Sprint(left, back)
	}
	pass := func(d time.Duration) { at = at.Add(d) }
	for i, step := range []struct {
		after time.Duration
		r     result
		want  string // put out, back
	}{
		{0, failed, "false false"},
		{0, failed, "false false"},
		{0, wellDone, "false false"}, // the row is broken
		{0, failed, "false false"},
		{0, failed, "false false"},
		{0, saysNothing, "false false"}, // the row is not
		{0, failed, "true false"},
		{0, failed, "false false"},               // a probe that failed: the next in 2 s
		{2 * time.Second, failed, "false false"}, // 4 s
		{4 * time.Second, wellDone, "false true"},
		{time.Second, unreachable, "true false"}, // again so soon: 8 s
	} {
		pass(step.after)
		if got := note(step.r); got != step.want {
			t.Errorf("step %d: %s, expected %s", i, got, step.want)
		}
	}
	if _, due, weight := h.look(at.Add(8*time.Second-1), false); due || weight < 0 || weight > 1 {
		t.Errorf("due %v, weight %v", due, weight)
	}
	pass(8 * time.Second)
	if out, due, _ := h.look(at, false); !out || !due || h.take(at, false) == nothingElse || h.take(at, false) != nothingElse {
		t.Error("expected one probe when the pause is over")
	}
	// It led nowhere, so there is another.
	if pass(8 * time.Second); h.take(at, false) == nothingElse {
		t.Error("a probe that never ended keeps the upstream out")
	}
	// What was sent before it was put out says nothing new.
	if _, back := h.note(at, h.since-1, wellDone, nil); back {
		t.Error("an old answer brought it back")
	}
	// The pause is bounded, and short again after a good time.
	for range 10 {
		pass(time.Minute)
		note(failed)
	}
	if h.pause != longestPause {
		t.Errorf("pause %v", h.pause)
	}
	note(wellDone)
	pass(longestPause)
	if note(unreachable); h.pause != time.Second {
		t.Errorf("pause %v after a good time", h.pause)
	}
	// Who cannot be spared stays, and who is never put out as well.
	spare = false
	h = health{rule: Health{Failures: 1, Pause: time.Second}}
	if got := note(unreachable); got != "false false" || h.out {
		t.Error("put out although it cannot be spared")
	}
	spare = true
	h = health{rule: Health{Failures: -1, Pause: time.Second}}
	for range 100 {
		note(unreachable)
	}
	if _, _, weight := h.look(at, false); h.out || weight != 100 {
		t.Errorf("out %v, weight %v", h.out, weight)
	}
	if _, _, weight := h.look(at.Add(time.Second), false); weight < 36 || weight > 37 {
		t.Errorf("weight %v after a second, expected 100/e", weight)
	}
	if _, _, weight := h.look(at.Add(10*time.Second), false); weight != 0 {
		t.Errorf("weight %v after ten seconds, expected 0: an idle upstream is as good as another idle one", weight)
	}
}

// Whatever the upstreams answer, there is one to choose that is in.
func TestNeverAllOut(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 3))
		p := &Proxy{log: discard()}
		s := &state{}
		for range 2 + chance.IntN(5) {
			s.upstreams = append(s.upstreams, &upstream{p: p, health: health{rule: Health{Failures: 1 + chance.IntN(5), Pause: time.Second}}})
		}
		s.groups = []*group{{upstreams: s.upstreams}}
		outs := int64(0)
		p.state.Store(s)
		now := mono.Time(0)
		for range 2000 {
			now = now.Add(time.Duration(chance.Int64N(int64(time.Second))))
			u := s.upstreams[chance.IntN(len(s.upstreams))]
			u.note(now, now, [...]result{wellDone, failed, failed, failed, unreachable, saysNothing}[chance.IntN(6)])
			out := 0
			for _, u := range s.upstreams {
				if u.health.isOut.Load() != u.health.out {
					t.Fatalf("seed %d: out %v, %v", seed, u.health.isOut.Load(), u.health.out)
				}
				if u.health.out {
					out++
				}
				outs += u.health.outs
			}
			if out == len(s.upstreams) {
				t.Fatalf("seed %d: all are out", seed)
			}
		}
		if outs == 0 {
			t.Errorf("seed %d: none was ever out, so nothing was tried", seed)
		}
	}
}

// An upstream that fails at once does not attract the load, is found again when
// it is well, and says all that in status and metrics.
func TestFailingFast(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	var hits [2]atomic.Int64
	_, bad := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits[0].Add(1)
		if broken.Load() {
			w.WriteHeader(500)
			return
		}
		io.WriteString(w, "ok")
	}))
	_, good := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits[1].Add(1)
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	cfg := to("http://"+bad, "http://"+good)
	cfg.Health.Pause = 100 * time.Millisecond
	p := start(t, cfg)
	c := client(t, 1, nil)
	c.Transport.(*http.Transport).MaxIdleConnsPerHost = 8
	var failures atomic.Int64
	const requests = 400
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range requests / 4 {
				resp, err := c.Get(p.url)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					failures.Add(1)
				}
			}
		})
	}
	await.All(t, &wg, "the clients to end")
	// Five to put it out, a few under way then, and a probe now and then.
	if n := failures.Load(); n > requests/10 {
		t.Errorf("%d of %d requests went to the upstream that fails", n, requests)
	}
	st := p.Status().Upstreams[0]
	if !st.Out || st.Served["done"] != 0 || st.Served["ignored"] == 0 || p.Status().Upstreams[1].Out {
		t.Errorf("status %+v", st)
	}
	_, metrics := get(t, c, p.admin+"/metrics")
	for _, want := range []string{"spillgate_upstream_out{", "spillgate_upstream_outs_total{", "spillgate_upstream_failures_total{"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	broken.Store(false)
	eventually(t, "the upstream to be back", func() bool { get(t, c, p.url); return !p.Status().Upstreams[0].Out })
	says(t, p, "upstream out of rotation", "upstream back in rotation")
}

// A refusal by the upstream's own gate, and what is the client's doing, are no
// failures.
func TestWhatIsNoFailure(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/shed":
			w.Header().Set("Spillgate", wire.Header(wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Delay, Retryable: true}}.Append(nil)))
			w.WriteHeader(503)
		case "/status":
			var code int
			fmt.Sscan(r.URL.RawQuery, &code)
			w.WriteHeader(code)
		}
	}))
	p := start(t, to("http://"+addr))
	c := client(t, 1, nil)
	failures := func() int64 {
		u := p.state.Load().upstreams[0]
		u.health.mu.Lock()
		defer u.health.mu.Unlock()
		return u.health.failed
	}
	for _, path := range []string{"/shed", "/status?404", "/status?429", "/status?501", "/status?200"} {
		get(t, c, p.url+path)
		if failures() != 0 {
			t.Errorf("%s is a failure", path)
		}
	}
	for i, code := range []int{500, 502, 503, 504} {
		get(t, c, p.url+fmt.Sprint("/status?", code))
		if failures() != int64(i)+1 {
			t.Errorf("%d is no failure", code)
		}
	}
}

// An upstream whose answers break off in the middle is seen: in the metrics, the log and the
// access log, and it is put out as one that does not answer.
func TestTruncatedAnswers(t *testing.T) {
	var well atomic.Bool
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Who", "cut")
		if well.Load() {
			fmt.Fprint(w, "whole")
			return
		}
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 50_000))
		panic(http.ErrAbortHandler)
	})
	whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "whole") })
	_, bad := serve(t, cut)
	_, good := serve(t, whole)
	for _, scheme := range []string{"http://", "h2c://"} {
		well.Store(false)
		cfg := to(scheme+bad, scheme+good)
		cfg.Health = Health{Failures: 3, Pause: 10 * time.Millisecond}
		cfg.Access.Path = t.TempDir() + "/log"
		p := start(t, cfg)
		c := client(t, 1, nil)
		first := p.state.Load().upstreams[0]
		eventually(t, "the upstream that breaks off to be out", func() bool {
			var all sync.WaitGroup
			for range 4 { // at once, so that each upstream gets some
				all.Go(func() {
					if resp, err := c.Get(p.url); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			await.All(t, &all, "the clients to end")
			return first.health.isOut.Load()
		})
		eventually(t, scheme+`: kind="truncated" in the metrics`, func() bool { return strings.Contains(metrics(t, p), `kind="truncated"`) })
		says(t, p, "upstream failed", "kind=truncated")
		eventually(t, scheme+": a line of the access log that says that an answer broke off", func() bool {
			return slices.ContainsFunc(logged(t, cfg.Access.Path, 3), func(l line) bool {
				return l.Decision == broken && l.Reason == string(truncated) && l.Aborted && l.Upstream == first.name
			})
		})
		well.Store(true)
		eventually(t, "the upstream to be back, with a whole answer", func() bool {
			get(t, c, p.url)
			return !first.health.isOut.Load() && first.health.cuts.Load() == 0
		})
	}
}

// A client that leaves in the middle of an answer is no failure of the upstream.
func TestClientLeavesAnswer(t *testing.T) {
	left := make(chan struct{}, 1)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		left <- struct{}{}
	}))
	for major := 1; major <= 2; major++ {
		p := start(t, to("http://"+addr))
		resp, err := client(t, major, nil).Get(p.url)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 1000)
		resp.Body.Close()
		await.Value(t, left, "the upstream to see that the client left")
		eventually(t, "the request to end", func() bool { return p.active.Load() == 0 })
		u := p.state.Load().upstreams[0]
		u.health.mu.Lock()
		if u.health.failed != 0 {
			t.Errorf("HTTP/%d: %d failures, expected none", major, u.health.failed)
		}
		u.health.mu.Unlock()
		if !regexp.MustCompile(`kind="truncated",.*\} 0\n`).MatchString(metrics(t, p)) {
			t.Errorf("HTTP/%d: the client's leaving counts as a truncated answer", major)
		}
	}
}
