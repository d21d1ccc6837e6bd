package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// actives registers clients that each have one request here.
func actives(t *testing.T, n int) (*Pool, []*Client) {
	t.Helper()
	p, err := NewPool(Config{TargetDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var clients []*Client
	for range n {
		c := p.Register(0)
		p.OnRequest(0, c, 0)
		clients = append(clients, c)
	}
	return p, clients
}

// TestStanding: an equal share of 400 requests is 100 for each of four clients. Who had
// 60 may have had 60 + 2·√61 = 76 but for chance, under 90; who had 131 is above
// 110 + 2·√101 = 130.1.
func TestStanding(t *testing.T) {
	for _, test := range []struct {
		had, all float64
		want     standing
	}{
		{0, 400, modest}, {60, 400, modest}, {73, 400, usual}, {100, 400, usual}, {130, 400, usual}, {131, 400, heavy},
		{0, 63, usual}, {0, 65, modest}, // fewer than 16 each tell nothing
	} {
		p, clients := actives(t, 4)
		p.OnUse(0, clients[0], test.had, 0, test.all)
		if got := clients[0].standing; got != test.want {
			t.Errorf("%v of %v requests among four: standing %d, want %d", test.had, test.all, got, test.want)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestModestFindsACredit: credits are short, and a client that asks for less than an equal
// share has some all the same, beside the pool; when it asks for more it does not bring
// them in.
func TestModestFindsACredit(t *testing.T) {
	p, clients := actives(t, 4)
	c := clients[0]
	p.OnUse(0, c, 10, 0, 400)
	p.SetTotal(0, 1)
	if g := p.OnReply(0, c); g.Window != 8 {
		t.Errorf("window %d, want that of a new client, 8", g.Window)
	}
	free := p.free()
	p.OnUse(0, c, 100, 0, 400)
	if c.Window() > 1 {
		t.Errorf("window %d after it had as much as others, want at most 1", c.Window())
	}
	if p.free() < free-1 {
		t.Errorf("the others have %d credits less, want at most 1", free-p.free())
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// TestHeavyWaitsWhileOthersWait: the delay is at its target and a client waits that has no
// credit: one that had clearly more loses its window at its next reply, not one at a
// time.
func TestHeavyWaitsWhileOthersWait(t *testing.T) {
	p, clients := actives(t, 4)
	now := mono.Time(p.cfg.Interval)
	p.OnDelay(p.cfg.TargetDelay)
	p.OnWake(now, 0)
	greedy, waiting := clients[0], clients[1]
	p.OnReply(now, waiting)
	p.setWindow(now, waiting, 0)
	p.SetTotal(now, 4)
	p.OnUse(now, greedy, 300, 0, 400)
	p.OnDemand(now, waiting, 1)
	if waiting.Window() != 0 {
		t.Fatalf("the one that waits has a window of %d, want none", waiting.Window())
	}
	before := greedy.Window()
	if g := p.OnReply(now, greedy); int(g.Window) > 1 || before < 8 {
		t.Errorf("window %d, before %d, want an equal share of 4 credits", g.Window, before)
	}
}
