package credit

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// bench is a pool with clients that always have more to send.
type bench struct {
	t     *testing.T
	p     *Pool
	now   mono.Time
	asks  map[*Client][]int // workflows
	peers map[*Client]uint64
	all   []*Client
}

func newBench(t *testing.T) *bench {
	p, err := NewPool(Config{TargetDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, p: p, asks: map[*Client][]int{}, peers: map[*Client]uint64{}}
}

// add registers n clients of a peer, 0 for one each, that ask for workflows.
func (b *bench) add(n int, peer uint64, workflows ...int) []*Client {
	var some []*Client
	for range n {
		c := b.p.Register(b.now)
		b.asks[c], b.peers[c] = workflows, peer
		some = append(some, c)
	}
	b.all = append(b.all, some...)
	return some
}

// settle lets every client send and get answers for so many intervals, in which the pool
// is held at a size.
func (b *bench) settle(intervals, total int) {
	for range intervals {
		b.now = b.now.Add(b.p.cfg.Interval)
		b.p.SetTotal(b.now, float64(total))
		b.p.OnWake(b.now, b.p.cfg.TargetDelay)
		for _, c := range b.all {
			b.p.OnPeer(c, b.peers[c])
			for _, w := range b.asks[c] {
				b.p.OnWorkflow(c, w)
			}
			for range max(c.window, 1) {
				b.p.OnRequest(b.now, c, 100)
			}
			for c.pending > 0 {
				b.p.OnReply(b.now, c)
			}
		}
		if err := b.p.Check(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func sum(clients []*Client) (windows int) {
	for _, c := range clients {
		windows += c.window
	}
	return windows
}

func (b *bench) want(what string, clients []*Client, want, tolerance int) {
	b.t.Helper()
	if got := sum(clients); got < want-tolerance || got > want+tolerance {
		b.t.Errorf("%s have %d credits, want %d ± %d", what, got, want, tolerance)
	}
}

// TestWeights: 400 credits go by the weights of the workflows, 3 to 1, however many clients
// ask for each.
func TestWeights(t *testing.T) {
	for _, n := range [][2]int{{10, 10}, {4, 20}, {20, 4}, {1, 1}} {
		b := newBench(t)
		b.p.SetShare(1, 3)
		heavier, lighter := b.add(n[0], 0, 1), b.add(n[1], 0, 2)
		b.settle(200, 400)
		b.want("clients of the heavier workflow", heavier, 300, 20)
		b.want("clients of the lighter one", lighter, 100, 20)
	}
}

// TestSeveralWorkflowsOfAClient: five clients ask for a workflow of weight 3, five for one of
// weight 1, and five for both, which have their part of both: a tenth of 300 and of 100.
// Beside its window each is told the parts.
func TestSeveralWorkflowsOfAClient(t *testing.T) {
	b := newBench(t)
	b.p.SetShare(1, 3)
	one, two, both := b.add(5, 0, 1), b.add(5, 0, 2), b.add(5, 0, 1, 2)
	b.settle(200, 400)
	b.want("those who ask for the first", one, 150, 10)
	b.want("those who ask for the second", two, 50, 10)
	b.want("those who ask for both", both, 200, 10)
	if ratio := b.p.Part(1) / b.p.Part(2); math.Abs(ratio-3) > 1e-9 {
		t.Errorf("the parts are as %v to 1, want 3", ratio)
	}
	if b.p.Part(maxWorkflows) != 1 || b.p.Part(-1) != 1 || b.p.Part(5) != 1 {
		t.Error("workflows that nobody asks for have another part than 1")
	}
}

// TestOneCreditForMany: there are fewer credits than clients. Those who are due more than one
// have it, and the others take turns.
func TestOneCreditForMany(t *testing.T) {
	b := newBench(t)
	b.p.SetShare(1, 3)
	heavier, lighter := b.add(5, 0, 1), b.add(40, 0, 2)
	b.settle(400, 20)
	b.want("five clients of the heavier workflow", heavier, 15, 2)
	b.want("forty of the lighter one", lighter, 5, 2)
}

// TestWhoAsksNoMoreIsForgotten: the clients of a workflow leave, or ask for another one. Two
// seasons later nothing is kept for it.
func TestWhoAsksNoMoreIsForgotten(t *testing.T) {
	b := newBench(t)
	b.p.SetShare(1, 3)
	leaves, changes, stays := b.add(2, 0, 1), b.add(2, 0, 1), b.add(4, 0, 2)
	b.settle(200, 400)
	for _, c := range leaves {
		b.p.Deregister(b.now, c)
	}
	b.all = b.all[len(leaves):]
	for _, c := range changes {
		b.asks[c] = []int{2}
	}
	b.settle(300, 400)
	b.want("two of six", changes, 133, 15)
	b.want("four of six", stays, 267, 15)
	if n := b.p.workflows[1].all(); n != 0 {
		t.Errorf("%d parties are counted for the workflow, want none", n)
	}
}

// TestWithoutWorkflowsAllAreAlike: weights are nothing to clients of whom no workflow is known,
// nor are workflows beyond those that are told apart.
func TestWithoutWorkflowsAllAreAlike(t *testing.T) {
	b := newBench(t)
	b.p.SetShare(0, 9)
	b.p.SetShare(maxWorkflows, 9)
	b.p.SetShare(-1, 9)
	unknown, beyond := b.add(5, 0), b.add(5, 0, maxWorkflows+3, -1)
	b.settle(200, 400)
	b.want("clients of no workflow", unknown, 200, 10)
	b.want("clients of one too many", beyond, 200, 10)
}

// TestConnectionsOfAPeer: a peer has what a client has of whom no peer is known, however many
// connections it opens.
func TestConnectionsOfAPeer(t *testing.T) {
	b := newBench(t)
	many, single := b.add(20, 7), b.add(3, 0)
	b.settle(200, 400)
	b.want("twenty connections of a peer", many, 100, 25) // a credit each is rounded away
	b.want("three clients", single, 300, 25)
	if b.p.Parties() != 4 {
		t.Errorf("%d share the pool, want 4", b.p.Parties())
	}
	for _, c := range many {
		b.p.Deregister(b.now, c)
	}
	if len(b.p.peers) != 0 || b.p.Parties() != 3 {
		t.Errorf("%d peers are kept and %d share the pool after they left, want 0 and 3", len(b.p.peers), b.p.Parties())
	}
}

// TestConnectionsThatLieAround: a hundred connections of a peer that sent one request each hold
// no more than its share from the others, and are not taken for a hundred parties.
func TestConnectionsThatLieAround(t *testing.T) {
	b := newBench(t)
	honest := b.add(9, 0)
	b.settle(100, 100)
	for range 100 {
		c := b.p.Register(b.now)
		b.p.OnPeer(c, 7)
		b.p.OnRequest(b.now, c, 1000)
		b.p.OnReply(b.now, c)
	}
	b.settle(100, 100)
	if n := b.p.Parties(); n != 10 {
		t.Errorf("%d share the pool, want 10", n)
	}
	if got := sum(honest); got < 85 {
		t.Errorf("the others have %d of 100 credits, want 90", got)
	}
}

// TestSilentConnectionsAreOnePartys: connections of a peer that have credits and are silent for
// long are still the peer's, which is one party, and its part is divided among all of them.
func TestSilentConnectionsAreOnePartys(t *testing.T) {
	b := newBench(t)
	silent, c := b.add(20, 7), b.add(1, 8)
	b.settle(10, 100)
	for range 3 {
		b.p.nextSeason()
		b.p.count(c[0])
	}
	if n := b.p.Parties(); n != 2 {
		t.Errorf("%d share the pool, want 2", n)
	}
	if n := b.p.active(silent[0].party); n != 20 {
		t.Errorf("%d connections of the peer divide its part, want 20", n)
	}
}

// TestPeersAreCompared: of two peers one had twice what the other had, by ten connections: that
// each of these had a tenth makes none of them modest.
func TestPeersAreCompared(t *testing.T) {
	b := newBench(t)
	many, one := b.add(10, 7), b.add(1, 8)
	b.settle(10, 100)
	for _, c := range many {
		b.p.OnUse(b.now, c, 200, 2000, 3000)
	}
	b.p.OnUse(b.now, one[0], 1000, 1000, 3000)
	if many[0].standing != heavy || one[0].standing != modest {
		t.Errorf("standings %d and %d, want heavy and modest", many[0].standing, one[0].standing)
	}
}

// TestClientsOfOneProxy: a peer that had nearly everything is no other's rival, but its clients
// are each other's.
func TestClientsOfOneProxy(t *testing.T) {
	b := newBench(t)
	proxied, other := b.add(10, 7), b.add(1, 8)
	b.settle(10, 100)
	b.p.OnUse(b.now, other[0], 10, 10, 4000)
	b.p.OnUse(b.now, proxied[0], 3000, 3990, 4000)
	b.p.OnUse(b.now, proxied[1], 110, 3990, 4000)
	if proxied[0].standing != heavy || proxied[1].standing != modest {
		t.Errorf("standings %d and %d, want heavy and modest", proxied[0].standing, proxied[1].standing)
	}
}

// TestModestNeedNotBeTold: a client that had less than its share may send as many requests as
// it finds credits for, also before it heard of them: it may have come just now.
func TestModestNeedNotBeTold(t *testing.T) {
	p, clients := actives(t, 4)
	p.OnDelay(p.cfg.TargetDelay)
	p.OnWake(mono.Time(p.cfg.Interval), 0) // nobody brings credits in now
	c := p.Register(mono.Time(p.cfg.Interval))
	p.OnUse(mono.Time(p.cfg.Interval), c, 0, 0, 4000)
	if c.Window() != 0 || !p.OnRequest(mono.Time(p.cfg.Interval), c, 0) {
		t.Errorf("window %d, and its first request is over it, want 0 and within what it may have", c.Window())
	}
	p.OnUse(mono.Time(p.cfg.Interval), clients[0], 3000, 0, 4000)
	p.setWindow(mono.Time(p.cfg.Interval), clients[0], 0)
	if p.OnRequest(mono.Time(p.cfg.Interval), clients[0], 0) {
		t.Error("one that had more than its share sends without a credit")
	}
}

// TestWhoHasItsShareLetsOthersGoFirst: a free credit goes to a client that waits for its first
// one, though one of a peer that has its share has waited for longer.
func TestWhoHasItsShareLetsOthersGoFirst(t *testing.T) {
	b := newBench(t)
	rich, poor := b.add(3, 7), b.add(1, 8)
	b.settle(10, 40)
	p := b.p
	p.setWindow(b.now, rich[1], 60) // nothing is free
	for _, c := range []*Client{rich[0], poor[0]} {
		p.setWindow(b.now, c, 0)
		p.setDemand(c, 5)
		p.undrain(c)
		p.drainIfEmpty(c)
	}
	if p.hungry.head != rich[0] {
		t.Fatal("the one of the peer with the share does not wait for longest")
	}
	if c := p.next(); c != poor[0] {
		t.Errorf("client %d is next, want %d", c.Number(), poor[0].Number())
	}
}
