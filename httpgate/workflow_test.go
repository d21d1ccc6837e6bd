package httpgate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const ms = time.Millisecond

// rated is a gate whose workflows have rates.
func rated(t *testing.T, name string, slotCount int, observe func(live.Event)) *live.Gate {
	t.Helper()
	g, err := live.NewGate(live.GateConfig{Service: name, Observe: observe, Config: admission.Config{
		Objective: 200 * ms, NoCredit: true, Slots: slots.Config{Min: slotCount, Max: slotCount, Initial: slotCount}, Rates: &rates.Config{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func everybody(*http.Request) bool { return true }

// fetch makes a request with a handler's context, to its end.
func fetch(ctx context.Context, client http.RoundTripper, url string) error {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := client.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status)
	}
	return err
}

// TestProgressAndRatesOfThreeTiers: entry → middle → leaf, over both versions of
// HTTP. What a request took adds up, and a leaf that one workflow overloads makes
// the entry refuse it.
func TestProgressAndRatesOfThreeTiers(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(map[int]string{1: "http1", 2: "http2"}[version], func(t *testing.T) {
			var seen, spent sync.Map
			var limited atomic.Int64 // of F, at the entry
			leaf := serve(t, Handler(rated(t, "leaf", 2, nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tags := live.TagsFrom(r.Context())
				seen.Store(tags.Workflow, tags)
				time.Sleep(20 * ms)
				_, _ = io.WriteString(w, "ok")
			}), Trust(everybody)))
			forward := func(name, next string) http.HandlerFunc {
				client := Transport(base(t, version))
				return func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(5 * ms)
					if err := fetch(r.Context(), client, next); err != nil {
						w.WriteHeader(http.StatusBadGateway)
						return
					}
					spent.Store(name, live.SpanFrom(r.Context()).Spent())
				}
			}
			middle := serve(t, Handler(rated(t, "middle", 2000, nil), forward("middle", leaf.url), Trust(everybody)))
			gate := rated(t, "entry", 2000, func(e live.Event) {
				if e.Reason == work.Rate && e.Workflow == "F" {
					limited.Add(1)
				}
				if e.Reason == work.Rate && e.Workflow != "F" {
					t.Errorf("the entry refused a request of %q for its rate", e.Workflow)
				}
			})
			entry := serve(t, Handler(gate, forward("entry", middle.url), Trust(everybody)))

			client := base(t, version)
			for range 3 {
				send(t, client, request(t, entry.url, wire.Tags{Workflow: "A"}))
			}
			v, _ := seen.Load("A")
			if tags, _ := v.(wire.Tags); tags.Total.Service < 30*ms || tags.Elapsed.Service < 10*ms || tags.Process != 0 {
				t.Errorf("the leaf's handler has %+v, expected a total of 30 ms, 10 ms of them elapsed, and nothing of the hop", tags)
			}
			for name, least := range map[string]time.Duration{"middle": 25 * ms, "entry": 30 * ms} {
				v, _ := spent.Load(name)
				if p, _ := v.(wire.Progress); p.Service < least || p.Work < p.Service {
					t.Errorf("at the %s: %+v, expected at least %v", name, p, least)
				}
			}

			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer await.All(t, &wg, "the clients to end")
			defer cancel()
			wg.Go(func() { // 500/s of F, where the leaf can do 100/s
				tick := time.NewTicker(2 * ms)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
					wg.Go(func() {
						r, _ := http.NewRequestWithContext(ctx, "GET", entry.url, nil)
						r.Header.Set(field, wire.Header(wire.Tags{Workflow: "F", Budget: 500 * ms}.Append(nil)))
						if resp, err := client.RoundTrip(r); err == nil {
							_ = resp.Body.Close()
						}
					})
				}
			})
			begun := time.Now()
			eventually(t, "the entry refuses F for its rate", func() bool { return limited.Load() >= 20 })
			t.Logf("after %v", time.Since(begun).Round(10*ms))
		})
	}
}

// TestStrangersHaveNoProcess: who is not trusted is told nothing of rates, and what
// it says of its progress goes nowhere.
func TestStrangersHaveNoProcess(t *testing.T) {
	gate := rated(t, "s", 8, nil)
	var seen atomic.Pointer[wire.Tags]
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tags := live.TagsFrom(r.Context())
		seen.Store(&tags)
	})))
	hostile := wire.Tags{Workflow: "w", Process: 9, Claim: wire.MaxRate, Total: wire.Progress{Service: time.Hour}, Elapsed: wire.Progress{Service: time.Hour}}
	for range 3 {
		resp, _ := send(t, base(t, 1), request(t, s.url, hostile))
		if r := replyIn(t, resp.Header); r != nil && (r.Process != 0 || r.HasRate || r.Service != "") {
			t.Errorf("a stranger was told %+v", r)
		}
	}
	if tags := seen.Load(); tags.Workflow != "" || tags.Elapsed != (wire.Progress{}) || tags.Total.Service > time.Minute {
		t.Errorf("a stranger's tags go on: %+v", tags)
	}
	for _, st := range gate.Rates(nil) {
		if st.Name != "" || st.Demand > 1000 {
			t.Errorf("a stranger has %+v", st)
		}
	}
}

// TestProcessDoesNotLeak: what is of one hop does not travel further, with or
// without a gate in between.
func TestProcessDoesNotLeak(t *testing.T) {
	var got wire.Tags
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		msg, err := decodeField(r.Header[field], false)
		if err == nil {
			got, err = wire.ParseTags(msg)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	came := wire.Tags{Workflow: "w", Process: 9, Claim: 5, Client: 7, Demand: 3, Credits: true, Total: wire.Progress{Service: 3, Work: 3}, Elapsed: wire.Progress{Service: 1, Work: 2}}
	if err := fetch(live.WithTags(t.Context(), came), Transport(base(t, 1)), s.url); err != nil {
		t.Fatal(err)
	}
	if got.Process != 0 || got.Claim != 0 || got.Client == 7 || got.Demand != 0 || got.Total != came.Total || got.Elapsed != came.Elapsed || got.Workflow != "w" {
		t.Errorf("%+v went on as %+v", came, got)
	}
}

// TestRequestsThatLostTheirs are counted by method and host.
func TestRequestsThatLostTheirs(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	below := serve(t, Handler(newGate(t, roomy(), nil), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	client := Transport(base(t, 1), CountUntagged(gate.Untagged()))
	s := serve(t, Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := errors.Join(fetch(r.Context(), client, below.url), fetch(context.TODO(), client, below.url)); err != nil {
			t.Error(err)
		}
	}), Trust(everybody)))
	for _, workflow := range []string{"", "w", "w"} {
		send(t, base(t, 1), request(t, s.url, wire.Tags{Workflow: workflow}))
	}
	n := uint64(0)
	gate.Untagged().Each(func(method string, c uint64) {
		if want := "GET " + below.url[len("http://"):]; method != want {
			t.Errorf("counted for %q, expected %q", method, want)
		}
		n += c
	})
	if n != 2 {
		t.Errorf("%d counted, expected 2", n)
	}
}
