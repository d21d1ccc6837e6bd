package httpgate

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// TestClassShares: a gate learns by itself that the requests whose handlers call on
// are interactive, by their paths; the next service is told so, and believes it.
func TestClassShares(t *testing.T) {
	var mu sync.Mutex
	var told work.Class
	next := serve(t, Handler(rated(t, "back", 4, nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		told = live.TagsFrom(r.Context()).Class
		mu.Unlock()
	}), Trust(everybody)))
	gate, err := live.NewGate(live.GateConfig{
		Config: admission.Config{Objective: 10 * time.Second}, Service: "front",
		ClassShares: &live.SharesConfig{Config: share.Config{Period: time.Hour}, Classifier: share.ClassifierConfig{Few: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	down := Transport(base(t, 1))
	mux := http.NewServeMux()
	mux.HandleFunc("/buy/", func(w http.ResponseWriter, r *http.Request) {
		if err := fetch(r.Context(), down, next.url); err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	mux.HandleFunc("/look", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	front := serve(t, Handler(gate, mux))
	client := base(t, 1)
	for range 5 {
		for _, path := range []string{"/buy/17", "/buy/4711", "/look"} {
			if err := fetch(t.Context(), client, front.url+path); err != nil {
				t.Fatal(err)
			}
		}
		if fetch(t.Context(), client, front.url+"/broken") == nil {
			t.Fatal("no error")
		}
	}
	explain := func(method string) share.Verdict {
		return gate.Shares().Explain(share.Key{Callee: "front", Method: method})
	}
	if buy, look := explain("GET /buy/*"), explain("GET /look"); buy.Class != work.Interactive || buy.Why != share.ByHops || look.Class != work.Default {
		t.Errorf("buy is %+v and look %+v, want buy alone to be interactive", buy, look)
	}
	mu.Lock()
	defer mu.Unlock()
	if told != work.Interactive {
		t.Errorf("the next service was told %v", told)
	}
	if s := gate.Shares().Stats(); s.Keys != 2 || s.Admitted[work.Interactive]+s.Admitted[work.Default] != 20 {
		t.Errorf("%+v, want 20 requests, and 2 kinds of which one succeeded", s)
	}
}
