package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
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

// TestLeaseBeginsWithTheGrant: a client that waited for longer than a lease, and then gets
// a credit, may keep it for a lease, although others wait and nothing was heard of it.
func TestLeaseBeginsWithTheGrant(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond, NoSpeculation: true})
	if err != nil {
		t.Fatal(err)
	}
	has, waits := p.Register(0), p.Register(0)
	p.OnDemand(0, has, 1)
	p.OnDemand(0, waits, 1)
	if has.Window() != 1 || waits.Window() != 0 {
		t.Fatalf("windows %d and %d of one credit, want 1 and 0", has.Window(), waits.Window())
	}
	lease := p.Config().Lease
	now := mono.Time(2 * lease)
	other := p.Register(now)
	p.OnDemand(now, other, 1)
	p.Deregister(now, has)
	if waits.Window() != 1 {
		t.Fatalf("window %d of who waited longest, want 1", waits.Window())
	}
	p.OnWake(now, p.cfg.TargetDelay)
	if waits.Window() != 1 {
		t.Errorf("window %d right after the grant, want 1", waits.Window())
	}
	now = now.Add(lease + 1)
	p.OnDemand(now, other, 1)
	p.OnWake(now, p.cfg.TargetDelay)
	if waits.Window() != 0 || other.Window() != 1 {
		t.Errorf("windows %d and %d a lease after, want 0 and 1", waits.Window(), other.Window())
	}
}
