package live

import (
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// TestTermsWhileItRuns: terms that are set again and again under load lose nobody,
// the last of them count, and nothing that was counted begins anew.
func TestTermsWhileItRuns(t *testing.T) {
	g := ratedGate(t, GateConfig{Config: admission.Config{
		Objective: time.Minute, Rates: &rates.Config{Policy: rates.MaxMinFair, Period: time.Millisecond},
	}})
	const each = 200
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, name := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range each {
				ticket, err := g.Enter(t.Context(), Request{Request: work.Request{Workflow: name}})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				time.Sleep(100 * time.Microsecond)
				ticket.Leave(work.Done)
			}
		})
	}
	var setting sync.WaitGroup
	setting.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			terms := map[string]rates.Terms{"a": {Weight: float64(i%5) + 1}, "b": {Guarantee: 10}}
			if i%2 == 0 {
				terms = map[string]rates.Terms{"c": {Weight: 2}}
			}
			if err := g.SetTerms(terms); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	setting.Wait()
	if n := g.Stats().Served[work.Done]; n != 3*each {
		t.Errorf("%d served, want %d", n, 3*each)
	}

	const most = 1e8 // requests/s, more than the slots can do
	if err := g.SetTerms(map[string]rates.Terms{"a": {Guarantee: most}}); err != nil {
		t.Fatal(err)
	}
	rate := func(name string) float64 {
		for _, s := range g.Rates(nil) {
			if s.Name == name {
				return s.Rate
			}
		}
		return 0
	}
	for end := time.Now().Add(time.Minute); rate("a") < most; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("guaranteed %v/s, has %v/s", float64(most), rate("a"))
		}
	}
	if b := rate("b"); b >= most {
		t.Errorf("b, which has no guarantee, has %v/s", b)
	}

	if err := g.SetTerms(map[string]rates.Terms{"a": {Weight: -1}}); err == nil {
		t.Error("a negative weight was taken")
	}
	plain := newGate(t, 1, GateConfig{})
	if err := plain.SetTerms(nil); err == nil {
		t.Error("a gate without rates took terms")
	}
}
