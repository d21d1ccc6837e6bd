package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// Terms reach the rates before the first request and after it, with the slots as a
// resource; who waits goes on waiting; a gate without rates says so.
func TestTerms(t *testing.T) {
	g := fixed(t, 4, func(c *Config) { c.Rates = &rates.Config{Policy: rates.MaxMinFair} })
	if err := g.SetTerms(0, map[string]rates.Terms{"w": {Guarantee: 7}}); err != nil {
		t.Fatal(err)
	}
	if got := g.Rates(0).Config().Terms["w"].Guarantee; got != 7 {
		t.Errorf("before the first request: %v", got)
	}
	for i := range 10 { // one of 80 ms at a time: 50/s is what four slots can do
		one := &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}
		g.Arrive(at(time.Duration(2*i)*80*ms), one)
		g.Leave(at(time.Duration(2*i+1)*80*ms), one, work.Done)
	}
	now := at(2 * 80 * ms * 10)
	g.OnWake(now)
	w := g.Rates(now).Workflow(now, "w")
	if r := g.Rates(now).Rate(w); r >= 60 {
		t.Fatalf("four slots and 80 ms each: %v/s", r)
	}
	if err := g.SetTerms(now, map[string]rates.Terms{"w": {Guarantee: 300}}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(100 * ms)
	if g.OnWake(now); g.Rates(now).Rate(w) < 300 {
		t.Errorf("a guarantee of 300/s: %v/s", g.Rates(now).Rate(w))
	}
	if err := g.SetTerms(now, map[string]rates.Terms{"w": {Weight: -1}}); err == nil || g.Rates(now).Config().Terms["w"].Guarantee != 300 {
		t.Errorf("a mistake: %v", err)
	}
	if err := fixed(t, 1).SetTerms(0, nil); err == nil {
		t.Error("a gate without rates took terms")
	}
}
