package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// The rule alone, with a clock of its own: two upstreams of a group, and how often in a second the first is asked while
// the second answers.
func TestSilence(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var all []*upstream
	reset := func(failures int) {
		p := &Proxy{log: discard()}
		all = nil
		for range 2 {
			all = append(all, &upstream{p: p, gate: gate, health: health{rule: Health{Failures: failures, Pause: time.Second}}})
		}
		s := &state{upstreams: all, groups: []*group{{upstreams: all}}}
		p.state.Store(s)
	}
	at := mono.Time(time.Hour)
	// run has a second go by.
	run := func(asked int, others bool) {
		for i := range 10 {
			at = at.Add(100 * time.Millisecond)
			if others {
				all[1].silence.hears()
			}
			if i < asked {
				all[0].asks(at, at)
			}
		}
	}
	out := func() bool { return all[0].health.out }

	reset(5)
	if run(10, true); out() {
		t.Error("out after less than a second")
	}
	if run(5, true); out() {
		t.Error("out after four answers of the other")
	}
	if run(1, true); !out() {
		t.Error("not out although it answered nothing for more than a second while the other answered")
	}
	if _, due, _ := all[0].health.look(at.Add(time.Second), false); !due {
		t.Error("no probe after a second")
	}
	at = at.Add(time.Second)
	// A probe that is claimed and never sent is followed by one as soon; one that is sent doubles the pause.
	if h := &all[0].health; h.take(at, false) != aProbe || h.pause != time.Second {
		t.Errorf("a pause of %v after a probe was claimed, expected 1 s", h.pause)
	}
	at = at.Add(time.Second)
	if h := &all[0].health; h.take(at, false) != aProbe || h.probes(at, aProbe) || h.pause != 2*time.Second || h.probe != at.Add(2*time.Second) {
		t.Errorf("a pause of %v after the first probe, expected 2 s", h.pause)
	}
	// Between probes there are glances, each a pause after what was sent last.
	for i, tt := range []struct {
		after bool
		want  purpose
	}{{false, nothingElse}, {true, aGlance}, {false, nothingElse}} {
		h := &all[0].health
		if tt.after {
			at = at.Add(time.Second)
		}
		if got := h.take(at, false); got != nothingElse {
			t.Errorf("step %d: %d for a request that must not glance", i, got)
		}
		if got := h.take(at, true); got != tt.want || h.probes(at, got) != (got == aGlance) || h.pause != 2*time.Second {
			t.Errorf("step %d: %d, expected %d", i, got, tt.want)
		}
	}
	// What it was asked before it was put out is answered: it is there again.
	if all[0].note(at, at.Add(-10*time.Second), wellDone); out() {
		t.Error("out although it answers")
	}

	for name, played := range map[string]func(){
		"too few requests": func() { run(3, true); run(0, true); run(1, true) },
		"nobody answers":   func() { run(10, false); run(10, false); run(10, false) },
		"it answers":       func() { run(15, true); all[0].silence.hears(); run(10, true) },
		"few answers": func() {
			run(10, false)
			run(10, false)
			all[1].silence.hears()
			run(10, false)
			all[1].silence.hears()
			run(10, false)
		},
		"requests a while ago": func() { run(10, true); all[0].silence.hears(); at = at.Add(time.Minute); run(9, true) },
		"never":                func() { reset(-1); run(10, true); run(10, true); run(10, true) },
	} {
		reset(5)
		if played(); out() {
			t.Errorf("%s: out", name)
		}
	}
}

// An upstream that takes requests and never answers is found although only its clients leave, and loses them no more
// than a few; it is back when it answers.
func TestBlackHole(t *testing.T) {
	var hole atomic.Bool
	var hits atomic.Int64
	hole.Store(true)
	_, bad := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hole.Load() {
			if r.URL.Path == "/later" { // a request of before may come late
				hits.Add(1)
			}
			<-r.Context().Done()
		}
	}))
	_, good := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Millisecond) }))
	cfg := to("http://"+bad, "http://"+good)
	cfg.Objective = 100 * time.Millisecond
	cfg.Health.Pause = 30 * time.Second
	p := start(t, cfg)
	c := client(t, 1, nil)
	c.Transport.(*http.Transport).MaxIdleConnsPerHost = 16
	ask := func(path string, patience time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := c.Do(r); err == nil {
			resp.Body.Close()
		}
	}
	isOut := func() bool { return p.Status().Upstreams[0].Out }
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ask("/", 300*time.Millisecond)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	eventually(t, "the upstream to be out", isOut)
	close(stop)
	await.All(t, &wg, "the clients to end")
	for range 100 {
		ask("/later", 10*time.Second)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests of 100 went to an upstream that is out", n)
	}
	says(t, p, "upstream out of rotation: it does not answer")
}

// A black hole that answers again is found by requests that cost their clients no answer, however long the pauses between
// probes have become.
func TestGlances(t *testing.T) {
	var hole atomic.Bool
	hole.Store(true)
	_, bad := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hole.Load() {
			<-r.Context().Done()
		}
	}))
	_, good := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	cfg := to("http://"+bad, "http://"+good)
	cfg.Objective = time.Second
	cfg.Health.Pause = 50 * time.Millisecond
	p := start(t, cfg)
	u := p.state.Load().upstreams[0]
	if !u.health.leaveFor(silent, live.Now(), func(result) bool { return true }) {
		t.Fatal("not put out")
	}
	u.health.mu.Lock()
	u.health.probe = live.Now().Add(time.Hour)
	u.health.mu.Unlock()
	c := client(t, 1, nil)
	ask := func() {
		resp, err := c.Get(p.url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	for u.retried.all("sent")["sent"] == 0 { // a glance that another upstream answered
		ask()
	}
	if isOut := p.Status().Upstreams[0].Out; !isOut {
		t.Error("back without an answer")
	}
	hole.Store(false)
	eventually(t, "the upstream to be back", func() bool { ask(); return !p.Status().Upstreams[0].Out })
}

// What waits for the end of a body waits for a client, and not for the upstream.
func TestSilenceOfUploads(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	u := &upstream{p: &Proxy{log: discard()}, gate: gate, health: health{rule: Health{Failures: 5}}}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("body"))
	b := &requestBody{body: r.Body, hold: true}
	b.left.Store(4)
	r.Body = b
	sent := func() int64 { return u.silence.sent.Load() }
	answered := u.asked(r, live.Now())
	if sent() != 0 {
		t.Error("a request counts before the end of its body")
	}
	if _, err := io.ReadAll(b); err != nil || sent() != 1 {
		t.Errorf("%v, %d requests sent at the end of its body, expected 1", err, sent())
	}
	answered(true)
	b = &requestBody{body: r.Body, hold: true}
	r.Body = b
	u.asked(r, live.Now())(true)
	if _, _ = io.ReadAll(b); sent() != 0 {
		t.Error("a body that ends after the answer counts as a request without one")
	}
}

// A frozen upstream that gets uploads alone, longer than what the system takes for it, is found although no body ever comes
// to its end.
func TestFrozenUnderUploads(t *testing.T) {
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	frozen, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close() // the system takes its connections
	_, good := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	cfg := to("http://"+frozen.Addr().String(), "http://"+good)
	cfg.Objective = 100 * time.Millisecond
	cfg.Slots = Slots{Min: 64, Max: 64}
	p := start(t, cfg)
	c := client(t, 1, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
				r, err := http.NewRequestWithContext(ctx, "POST", p.url, io.LimitReader(endless{}, 8<<20))
				if err != nil {
					t.Error(err)
				}
				r.ContentLength = 8 << 20
				if resp, err := c.Do(r); err == nil {
					resp.Body.Close()
				}
				cancel()
			}
		})
	}
	eventually(t, "the upstream to be out", func() bool { return p.Status().Upstreams[0].Out })
	stop()
	await.All(t, &wg, "the clients to end")
	says(t, p, "upstream out of rotation: it does not answer")
}

// endless reads zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A request that glances is the one that was chosen to, whatever else is sent to the upstream before it. An answer that
// comes too late for it brings the upstream back only if it is no failure, and an objective of its own is half the wait.
func TestGlancesAreOfOneRequest(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	p := &Proxy{log: discard()}
	u := &upstream{p: p, gate: gate, retries: &retries{}, health: health{rule: Health{Failures: 5, Pause: time.Second}}}
	other := &upstream{p: p, gate: gate, retries: &retries{}, health: health{rule: Health{Failures: 5, Pause: time.Second}}}
	all := []*upstream{u, other}
	p.state.Store(&state{upstreams: all, groups: []*group{{upstreams: all}}})
	status, takes := http.StatusInternalServerError, 100*time.Millisecond
	var calls http.RoundTripper = roundTrip(func(r *http.Request) (*http.Response, error) {
		select { // the context of a glance has ended when the answer comes, as where both come at once
		case <-time.After(takes):
		case <-r.Context().Done():
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	u.calls.Store(&calls)
	silenced := func() *http.Request {
		t.Helper()
		u.health.mu.Lock()
		u.health.out = false
		u.health.mu.Unlock()
		if !u.health.leaveFor(silent, live.Now(), func(result) bool { return true }) {
			t.Fatal("not put out")
		}
		u.health.isOut.Store(true)
		u.health.mu.Lock()
		u.health.probe, u.health.glance = live.Now().Add(time.Hour), live.Now()
		u.health.mu.Unlock()
		r := mayClaim(all, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		if chosen := least(all, nil, claimOf(r), true); chosen != u {
			t.Fatal("no glance")
		}
		return r
	}
	first := silenced()
	before := mayClaim(all, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	if _, err := (&judged{u}).RoundTrip(before); err != nil {
		t.Errorf("a request that claimed nothing: %v", err)
	}
	if _, err := (&judged{u}).RoundTrip(first); err != errGlance || !u.health.out {
		t.Errorf("a glance that was answered 500: %v, out: %v; expected no answer, and true", err, u.health.out)
	}
	status = http.StatusOK
	if _, err := (&judged{u}).RoundTrip(silenced()); err != errGlance || u.health.out {
		t.Errorf("a glance that was answered well, too late: %v, out: %v; expected no answer, and false", err, u.health.out)
	}
	r := silenced()
	r = r.WithContext(context.WithValue(r.Context(), ruledKey{}, &ruled{objective: time.Hour}))
	takes = 50 * time.Millisecond
	if resp, err := (&judged{u}).RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a glance within half of its own objective: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Probes of an upstream that refuses connections at once cost nothing, so their pause does not grow. One that is not
// reached in time costs its request that time.
func TestProbesOfWhatRefusesConnections(t *testing.T) {
	h := health{rule: Health{Failures: 5, Pause: time.Second}, goesOn: true}
	at := mono.Time(time.Hour)
	for i, tt := range []struct{ took, pause time.Duration }{
		{0, time.Second}, {0, time.Second}, {time.Millisecond, time.Second}, {100 * time.Millisecond, time.Second},
		{time.Second, 2 * time.Second}, {0, 2 * time.Second},
	} {
		h.note(at, at.Add(-tt.took), unreachable, func(result) bool { return true })
		if h.pause != tt.pause || h.probe != at.Add(tt.pause) {
			t.Errorf("failure %d: a pause of %v, expected %v", i, h.pause, tt.pause)
		}
		at = at.Add(10 * time.Second)
	}
	// Where no request goes on to another upstream, each of them is lost.
	h.goesOn = false
	if h.note(at, at, unreachable, func(result) bool { return true }); h.pause != 4*time.Second {
		t.Errorf("a pause of %v where there are no retries, expected 4 s", h.pause)
	}
}
