package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// The rule alone: an upstream whose every answer is late is out until one is in time, and the log has it only if a probe
// is late too.
func TestTardyHealth(t *testing.T) {
	spare := func(result) bool { return true }
	h := health{rule: Health{Failures: 5, Pause: time.Second}}
	at := mono.Time(time.Hour)
	if !h.leaveFor(tooLate, at, spare) || h.leaveFor(tooLate, at, spare) {
		t.Fatal("not put out once")
	}
	if left, back := h.note(at, at.Add(-time.Second), wellButLate, spare); left || back || !h.out {
		t.Errorf("%v, %v after a late answer of before", left, back)
	}
	if left, back := h.note(at, at.Add(-time.Second), wellDone, spare); left || back || h.out {
		t.Errorf("%v, %v after an answer in time of before: expected that it is back, and that nobody hears of it", left, back)
	}
	h.leaveFor(tooLate, at, spare)
	for i, pause := range []time.Duration{2, 4, 4, 4} {
		at = at.Add(10 * time.Second)
		if h.take(at, false) != aProbe || h.probes(at, aProbe) || h.pause != pause*time.Second {
			t.Errorf("probe %d: a pause of %v, expected %d s", i, h.pause, pause)
		}
		if left, back := h.note(at, at, wellButLate, spare); left != (i == 0) || back || !h.out {
			t.Errorf("probe %d: %v, %v", i, left, back)
		}
	}
	if left, back := h.note(at, at, wellDone, spare); left || !back || h.out {
		t.Errorf("%v, %v after an answer in time", left, back)
	}
	// What failed is back with a late answer.
	for range 5 {
		h.note(at, at, failed, spare)
	}
	if _, back := h.note(at, at, wellButLate, spare); !back {
		t.Error("a late answer is no answer to what failed")
	}
}

// What is late by nature, or by chance, is so at the other upstream too: nobody is put out unless the other's answers are all
// in time, and not in mode monitor.
func TestTardyBesideOthers(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	for _, tt := range []struct {
		name  string
		other string // its answers while five of the first are late: in time or late
		mode  live.Mode
		out   bool
	}{
		{"one in time", "i", live.Enforce, false},
		{"every second", "ilililililil", live.Enforce, false},
		{"the last late", "iiiiiil", live.Enforce, false},
		{"all late", "llllll", live.Enforce, false},
		{"all in time", "liiiii", live.Enforce, true},
		{"monitor", "liiiii", live.Monitor, false},
		{"none", "", live.Enforce, false},
	} {
		gate.SetMode(tt.mode)
		p := &Proxy{log: discard()}
		var all []*upstream
		for range 2 {
			all = append(all, &upstream{p: p, gate: gate, health: health{rule: Health{Failures: 5, Pause: time.Second}}})
		}
		p.state.Store(&state{upstreams: all, groups: []*group{{upstreams: all}}})
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		at := mono.Time(time.Hour)
		answers := func(u *upstream, took time.Duration) {
			at = at.Add(time.Second)
			u.timed(r, at.Add(-took), at)
		}
		answers(all[0], time.Second)
		for _, how := range tt.other {
			if how == 'i' {
				answers(all[1], time.Millisecond)
			} else {
				answers(all[1], time.Second)
			}
		}
		for range 4 {
			answers(all[0], time.Second)
		}
		if all[0].health.out != tt.out || all[1].health.out {
			t.Errorf("%s: out %v and %v, expected %v and false", tt.name, all[0].health.out, all[1].health.out, tt.out)
		}
		// In mode monitor a late answer is as good as any.
		gate.SetMode(live.Monitor)
		if what := all[0].timed(r, at.Add(-time.Second), at); what != wellDone {
			t.Errorf("%s: a late answer in mode monitor is %d", tt.name, what)
		}
	}
}

// An upstream that is slower than the objective gets probes alone while the other one is in time, and is found again.
func TestTardyUpstream(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	_, bad := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			time.Sleep(600 * time.Millisecond)
		}
		io.WriteString(w, "bad")
	}))
	_, good := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond)
		io.WriteString(w, "good")
	}))
	cfg := to("http://"+bad, "http://"+good)
	cfg.Objective = 500 * time.Millisecond
	cfg.Health.Pause = 100 * time.Millisecond
	p := start(t, cfg)
	c := client(t, 1, nil)
	c.Transport.(*http.Transport).MaxIdleConnsPerHost = 16
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
				resp, err := c.Get(p.url)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	logged := func(what string) func() bool {
		return func() bool { return strings.Contains(p.log.String(), what) }
	}
	eventually(t, "the upstream to be out", logged("upstream out of rotation: it answers after the objective"))
	slow.Store(false)
	eventually(t, "the upstream to be back", func() bool { return !p.Status().Upstreams[0].Out && logged("upstream back in rotation")() })
	close(stop)
	await.All(t, &wg, "the clients to end")
}
