package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// TestAClientThatGaveUpTellsNoTurnaround: a credit comes free for a request that its client has just given up, and the next
// one comes a minute later. That says nothing of how long a change of a window takes to be felt.
func TestAClientThatGaveUpTellsNoTurnaround(t *testing.T) {
	const target = 40 * time.Millisecond
	p, err := NewPool(Config{TargetDelay: target})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	c := p.Register(now)
	p.SetTotal(now, 1)
	for c.window > 1 {
		p.OnRequest(now, c, 1)
		p.OnReply(now, c)
	}
	p.OnRequest(now, c, 1)
	if p.OnReply(now, c); c.replied != now {
		t.Fatalf("the reply frees a credit for the next request: at %v, want %v", c.replied, now)
	}
	now = now.Add(time.Minute)
	if p.OnRequest(now, c, 0); p.turnaround > target/32 {
		t.Errorf("the next request comes in a minute: turnaround %v, want %v at most", p.turnaround, target/32)
	}
}
