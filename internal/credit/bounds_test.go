package credit

import (
	"testing"
	"time"
)

// TestDisconnectBoundsThePool: credits for clients that have gone are not kept for those
// that stay, who would have them all at once: of ten new clients with eight credits each,
// one is left, which may have headroom.
func TestDisconnectBoundsThePool(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var clients []*Client
	for range 10 {
		clients = append(clients, p.Register(0))
	}
	if got := p.Total(); got != 80 {
		t.Fatalf("%d credits for ten new clients, want 80", got)
	}
	for i, c := range clients[1:] {
		p.Deregister(0, c)
		if got, most := p.Total(), headroom*(9-i); got > most {
			t.Errorf("%d credits for %d clients without requests, want at most %d", got, 9-i, most)
		}
	}
}

// TestOneCreditLessAReply: a pool that has become smaller takes a client's credits back
// one a reply, so that none of its requests under way is over its window.
func TestOneCreditLessAReply(t *testing.T) {
	p, clients := actives(t, 1)
	c := clients[0]
	if c.Window() != 8 {
		t.Fatalf("window %d at the start, want 8", c.Window())
	}
	p.SetTotal(0, 1)
	for want := 7; want >= 1; want-- { // with one request under way besides
		p.OnRequest(0, c, 0)
		if g := p.OnReply(0, c); int(g.Window) != want {
			t.Errorf("window %d, want %d: one less than before the reply", g.Window, want)
		}
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
