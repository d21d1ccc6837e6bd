package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// flood is a server that works on nine requests for 80 ms each and refuses others at once, and fifty clients that hear
// replies alone, or grants as well. Each client has some users, who ask again at once after an answer and 40 ms after a
// refusal.
type flood struct {
	pool    *Pool
	now     mono.Time
	clients []*flooder
	running []*visitor
	served  int
	ahead   bool // headers go before requests have left
}

type flooder struct {
	account *Client
	wallet  *Wallet
	window  *Window
	served  int
}

type visitor struct {
	waiter Waiter
	client *flooder
	at     mono.Time // its next request
	ends   mono.Time // of its request at the server
	busy   bool
}

const floodSlots, floodService, floodPause = 9, 80 * time.Millisecond, 40 * time.Millisecond

func newFlood(t *testing.T, byReply bool) *flood {
	p, err := NewPool(Config{TargetDelay: 160 * time.Millisecond, Objective: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{pool: p}
	for range 50 {
		w, err := NewWallet(WalletConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c := &flooder{account: p.Register(0), wallet: w, window: w.Open()}
		c.account.Owner = c
		p.ByReply(c.account, byReply)
		f.clients = append(f.clients, c)
	}
	return f
}

// play lets some of the clients have users for a time, and returns how many requests were served in each half second.
func (f *flood) play(t *testing.T, clients, users int, length time.Duration) (served []int) {
	var all []*visitor
	for i, c := range f.clients[:clients] {
		for u := range users {
			all = append(all, &visitor{client: c, at: f.now.Add(time.Duration(i*users+u) * time.Millisecond)})
		}
	}
	for end := f.now.Add(length); f.now < end; f.now = f.now.Add(time.Millisecond) {
		if f.now%mono.Time(500*time.Millisecond) == 0 {
			served, f.served = append(served, 0), 0
		}
		f.step(all)
		served[len(served)-1] = f.served
		if err := f.pool.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range all { // they go; what is at the server ends
		v.client.wallet.Cancel(&v.waiter)
	}
	return served
}

func (f *flood) step(all []*visitor) {
	running := f.running
	f.running = nil
	for _, v := range running {
		if v.ends > f.now {
			f.running = append(f.running, v)
			continue
		}
		f.served++
		f.reply(v, floodService)
		v.busy, v.at = false, f.now
	}
	for _, v := range all {
		if v.busy || v.at > f.now {
			continue
		}
		v.busy, v.waiter.Deadline, v.waiter.Owner = true, f.now.Add(4*time.Second), v
		step, _ := v.client.wallet.Submit(f.now, &v.waiter)
		f.follow(v, step)
	}
	for _, c := range f.clients {
		for w, step, _ := c.wallet.Next(f.now); w != nil; w, step, _ = c.wallet.Next(f.now) {
			f.follow(w.Owner.(*visitor), step)
		}
	}
	f.pool.OnWake(f.now, 0)
	for c, g, ok := f.pool.NextGrant(); ok; c, g, ok = f.pool.NextGrant() {
		if to := c.Owner.(*flooder); !c.byReply {
			to.wallet.OnGrant(f.now, to.window, g)
		}
	}
}

func (f *flood) follow(v *visitor, step Step) {
	switch {
	case step == Refuse:
		v.busy, v.at = false, f.now.Add(floodPause)
	case step == Wait:
	case f.pool.OnRequest(f.now, v.client.account, v.client.wallet.Demand()) && len(f.running) < floodSlots:
		v.ends = f.now.Add(floodService)
		f.running = append(f.running, v)
	default:
		f.pool.OnShed(v.client.account)
		f.pool.OnDelay(320 * time.Millisecond)
		f.reply(v, 0)
		v.busy, v.at = false, f.now.Add(floodPause)
	}
}

func (f *flood) reply(v *visitor, served time.Duration) {
	c := v.client
	switch {
	case served == 0:
		f.pool.reply(f.now, c.account, true)
		c.wallet.OnGrant(f.now, c.window, f.pool.grant(c.account))
	case f.ahead:
		c.served++
		c.wallet.OnGrant(f.now, c.window, f.pool.Ahead(f.now, c.account))
		f.pool.Left(f.now, c.account)
	default:
		c.served++
		c.wallet.OnGrant(f.now, c.window, f.pool.OnReply(f.now, c.account))
	}
	c.wallet.Return(&v.waiter, served)
}

// TestClientsThatHearRepliesAlone: more clients than credits keep a server busy, and when most of them have gone, the
// others have its slots within a second, although no grant reaches a client that waits. Before there was ByReply,
// clients that lived by the Revive of a lease did half of it, and after that nothing for three seconds. Each client is served:
// with headers that promised the next credit before it was known whose it is, half of them never were.
func TestClientsThatHearRepliesAlone(t *testing.T) {
	for _, how := range []struct{ byReply, ahead bool }{{true, false}, {true, true}, {false, false}} {
		byReply := how.byReply
		f := newFlood(t, byReply)
		f.ahead = how.ahead
		const full = floodSlots * 500 / 80 // of a half second
		for i, n := range f.play(t, 50, 4, 10*time.Second) {
			if i >= 2 && n < full*8/10 {
				t.Errorf("by reply %v: %d requests served in half second %d of a flood, expected most of %d", byReply, n, i, full)
			}
		}
		mean := 10 * 1000 / 80 * floodSlots / len(f.clients)
		for i, c := range f.clients {
			if byReply && c.served < mean/8 { // the others take turns of the credits, of which some are refused here
				t.Errorf("ahead %v: client %d was served %d times, expected about %d", f.ahead, i, c.served, mean)
			}
		}
		const eight = 8 * 500 / 80
		for i, n := range f.play(t, 8, 1, 3*time.Second) {
			if want := eight * 9 / 10; i >= 2 && n < want || n < eight/4 {
				t.Errorf("by reply %v: %d requests of eight users served in half second %d after a flood, expected %d soon", byReply, n, i, want)
			}
		}
	}
}

// TestAskingIsNoOverrun: a client that holds nothing and hears replies alone gets no credit that it would not hear of. It
// may ask, and has what is free with the reply; meanwhile it is told to wait for a turn, not for a lease. What it said it
// has ready is forgotten if it does not ask again.
func TestAskingIsNoOverrun(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: 80 * time.Millisecond, Objective: 200 * time.Millisecond, MinTotal: 1, InitialWindow: 1})
	if err != nil {
		t.Fatal(err)
	}
	holder, asker := p.Register(0), p.Register(0)
	p.ByReply(asker, true)
	p.SetTotal(0, 1)
	p.OnRequest(0, holder, 0)
	p.OnRequest(0, asker, 3)
	for asker.Window() > 0 || holder.Window() > 1 {
		p.OnReply(0, asker)
		p.OnReply(0, holder)
		p.OnRequest(0, holder, 0)
		p.OnRequest(0, asker, 3)
		p.OnDelay(time.Second)
		p.OnWake(p.NextWake(), time.Second)
		p.SetTotal(0, 1)
	}
	g := p.OnReply(0, asker)
	if g.Window != 0 || g.Revive < quantum*p.cfg.Interval*3/4 || g.Revive > quantum*p.cfg.Interval*5/4 {
		t.Fatalf("the grant of a client without credits says %d and %v, expected 0 and about a turn", g.Window, g.Revive)
	}
	p.OnReply(0, holder)
	p.Deregister(0, holder)
	if p.free() < 1 || asker.Window() != 0 {
		t.Fatalf("%d credits are free and %d with a client that does not hear of it, expected 1 and 0", p.free(), asker.Window())
	}
	if !p.OnRequest(0, asker, 3) {
		t.Error("a request that asks is an overrun")
	}
	if g := p.OnReply(0, asker); g.Window != 1 || asker.due != 0 {
		t.Errorf("the reply grants %d, and it is to ask at %v, expected the credit that is free, and no instant", g.Window, asker.due)
	}
	p.setWindow(0, asker, 0)
	for range 200 {
		p.OnWake(p.NextWake(), 0)
	}
	if p.Demand() != 0 || asker.Window() != 0 {
		t.Errorf("a client that was not heard of for long has %d ready and %d credits, expected none", p.Demand(), asker.Window())
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// still returns a pool of that many credits at least, as many for a new client, that grows by a credit at a time.
func still(t *testing.T, credits int) *Pool {
	t.Helper()
	p, err := NewPool(Config{TargetDelay: 80 * time.Millisecond, MinTotal: credits, InitialWindow: credits})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestASilentClientThatHearsRepliesAloneKeepsCreditsForALease: it would not hear that it lost them, so it may go on where
// it was, and others need not wait for longer than a lease.
func TestASilentClientThatHearsRepliesAloneKeepsCreditsForALease(t *testing.T) {
	p := still(t, 8)
	silent, waits := p.Register(0), p.Register(0)
	p.ByReply(silent, true)
	now := mono.Time(0)
	p.setWindow(now, waits, 0)
	p.SetTotal(now, 8)
	for end := now.Add(p.cfg.Lease + 2*p.cfg.Interval); now < end; now = now.Add(p.cfg.Interval) {
		p.OnDemand(now, waits, 3)
		p.OnWake(now, p.cfg.TargetDelay)
	}
	if silent.Window() != 0 || waits.Window() == 0 {
		t.Errorf("after a lease the silent client has %d credits and the other %d, expected none and some", silent.Window(), waits.Window())
	}
	for range 8 {
		if !p.OnRequest(now, silent, 0) {
			t.Error("a request within the window that the client believes in is an overrun")
		}
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// TestWhoHearsGrantsAgainNeedNotAsk: a client that was told to ask, and then opened a way for grants, waits for a credit only
// while it says that it has something ready.
func TestWhoHearsGrantsAgainNeedNotAsk(t *testing.T) {
	p := still(t, 1)
	holder, c := p.Register(0), p.Register(0)
	p.ByReply(c, true)
	p.setWindow(0, c, 0)
	p.SetTotal(0, 1)
	p.OnRequest(0, holder, 3)
	p.OnRequest(0, c, 3)
	var g wire.Grant
	if p.Reply(0, c, true, true, false, &g); g.Window != 0 || c.due == 0 {
		t.Fatalf("the client has %d credits and was not told to ask, expected 0 and an instant", g.Window)
	}
	p.ByReply(c, false)
	p.OnDemand(0, c, 0)
	if clients, hungry := p.Drained(); clients != 1 || hungry != 0 {
		t.Errorf("%d clients have nothing and %d of them wait, expected 1 and 0", clients, hungry)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// TestTheLineToAskEnds: when a flood of requests that ask is over, one that asks then is told to come soon, and not after all that
// could have come before it.
func TestTheLineToAskEnds(t *testing.T) {
	p := still(t, 1)
	clients := make([]*Client, 200)
	for i := range clients {
		clients[i] = p.Register(0)
		p.ByReply(clients[i], true)
		p.setWindow(0, clients[i], 0)
	}
	p.SetTotal(0, 0)
	p.rate = 1000 // so each waits for less than askEvery for each other one
	now, most := mono.Time(0), time.Duration(0)
	for range 50 {
		for _, c := range clients {
			p.OnRequest(now, c, 1)
			p.reply(now, c, true)
			most = max(most, c.again)
		}
		now = now.Add(most)
	}
	if last := p.askAt.Sub(now); last > 2*most {
		t.Errorf("the next client that asks is to come after %v, where all others come after %v at most", last, most)
	}
}

// TestWhoIsToldToAskIsToldATime: a client that nothing was told yet, and one whose time to ask comes in a moment, are told to wait for
// an interval all the same: without, a wallet sends all that it has unasked.
func TestWhoIsToldToAskIsToldATime(t *testing.T) {
	p := still(t, 1)
	holder, c := p.Register(0), p.Register(0)
	p.ByReply(c, true)
	p.setWindow(0, c, 0)
	p.setWindow(0, holder, 1)
	p.SetTotal(0, 1)
	if g := p.grant(c); g.Revive < p.cfg.Interval {
		t.Errorf("who was told nothing yet is told to ask after %v, expected an interval at least", g.Revive)
	}
	p.OnRequest(0, c, 9)
	p.OnRequest(0, c, 9)
	p.reply(0, c, true)
	if p.reply(c.due-1, c, true); c.window != 0 {
		t.Fatalf("the client has %d credits, expected none", c.window)
	}
	if g := p.grant(c); g.Revive < p.cfg.Interval {
		t.Errorf("who is to ask in a moment is told to ask after %v, expected an interval at least", g.Revive)
	}
}

// TestNothingIsGrantedForAWhile: a client that has no window, and more requests at the server than that, gives back what it
// has not: its reply says when it may ask all the same. With "at once", a client of a simulated world sent all 23 requests
// that waited in it.
func TestNothingIsGrantedForAWhile(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: 40 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	holder, hasty, waits := p.Register(0), p.Register(0), p.Register(0)
	for _, c := range []*Client{hasty, waits} {
		p.ByReply(c, true)
		p.setWindow(0, c, 0)
	}
	p.OnDemand(0, waits, 1)
	p.setWindow(0, holder, 8)
	p.SetTotal(0, 1)
	for range 3 {
		p.OnRequest(0, hasty, 2)
	}
	if p.free() >= 0 || p.waiting() == 0 {
		t.Fatalf("%d credits are free and %d clients wait, want too few credits", p.free(), p.waiting())
	}
	for i := range 3 {
		if g := p.OnReply(mono.Time(i), hasty); g.Window == 0 && g.Revive <= 0 {
			t.Errorf("reply %d: no credit, and the client may ask after %v, want later", i, g.Revive)
		}
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
