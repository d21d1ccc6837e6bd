package live

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

type testAccount struct{ open bool }

func testLedger(count *int) *Ledger[*testAccount] {
	return NewLedger(func() *testAccount { *count++; return &testAccount{true} }, func(a *testAccount) {
		if !a.open {
			panic("closed twice")
		}
		*count--
		a.open = false
	})
}

func TestLedger(t *testing.T) {
	var open int
	l := testLedger(&open)
	var one, two, other Bindings[*testAccount]
	get := func(b *Bindings[*testAccount], at time.Duration, peer string, id uint64) *testAccount {
		a, ok := b.Account(mono.Time(at), l, peer, id)
		if ok != (a != nil) {
			t.Fatalf("%v, %v", a, ok)
		}
		return a
	}
	a := get(&one, 0, "p", 7)
	if get(&two, 0, "p", 7) != a || get(&other, 0, "q", 7) == a || open != 2 {
		t.Errorf("%d accounts: a name is one client at its peer, and another at another", open)
	}
	if b := get(&one, 0, "p", 0); b == a || get(&two, 0, "p", 0) == b {
		t.Error("without a name, the connection is the client")
	}
	one.Close("p")
	if !a.open || get(&two, 0, "p", 7) != a {
		t.Error("an account lasts as long as any of its connections")
	}
	two.Close("p")
	if a.open || open != 1 || get(&two, 0, "p", 8) != nil {
		t.Errorf("%d accounts after the last connection closed", open)
	}
	two.Close("p")

	// One peer with as many connections as it likes: of each, one client.
	var many [100]Bindings[*testAccount]
	for i := range many {
		if get(&many[i], 0, "p", uint64(i)+1) == nil {
			t.Errorf("the client of connection %d has no account", i)
		}
	}
	if n := len(l.named); n != MaxIdentities+1 { // and q's
		t.Errorf("%d names, expected %d", n, MaxIdentities+1)
	}
	if get(&many[99], 0, "p", 5000) != nil {
		t.Error("a second client of a connection beyond the quota has an account")
	}
	if get(&many[0], 0, "p", 2) != get(&many[1], 0, "p", 2) || get(&many[0], 0, "p", 5000) == nil || get(&many[0], 0, "p", 5001) != nil {
		t.Error("beyond the quota, one client of a connection has the connection's account")
	}
	// A silent client makes room, on its own connection.
	if get(&many[5], time.Minute-1, "p", 6000) == nil { // the connection's own
		t.Error("no account")
	}
	before := open
	if get(&many[5], time.Minute, "p", 6001) == nil || open != before {
		t.Errorf("%d accounts, expected %d: the silent one's was to go", open, before)
	}
	for i := range many {
		many[i].Close("p")
	}
	// One connection has as many clients as it may, and the oldest makes room.
	var b Bindings[*testAccount]
	for id := range uint64(3 * MaxBindings) {
		if ok := get(&b, time.Duration(id), "p", id+1) != nil; ok != (id < MaxBindings) {
			t.Errorf("client %d: %v", id, ok)
		}
	}
	if get(&b, time.Minute, "p", 100) == nil || get(&b, time.Minute, "p", 101) != nil {
		t.Error("one client was silent for a minute")
	}
	b.Close("p")
	other.Close("q")
	if open != 0 || len(l.named) != 0 || len(l.peers) != 0 {
		t.Errorf("%d accounts, %d names, %d peers are left", open, len(l.named), len(l.peers))
	}
}

// Whatever clients do, the quotas hold and every account is closed once.
func TestLedgerAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 2))
		var open int
		ledgers := []*Ledger[*testAccount]{testLedger(&open), testLedger(&open)}
		var conns [30]Bindings[*testAccount]
		peer := func(i int) string { return string(rune('a' + i%2)) }
		now := mono.Time(0)
		for range 5000 {
			now = now.Add(time.Duration(chance.Int64N(int64(3 * time.Second))))
			i := chance.IntN(len(conns))
			if chance.IntN(200) == 0 {
				conns[i].Close(peer(i))
				conns[i] = Bindings[*testAccount]{}
				continue
			}
			l := ledgers[chance.IntN(2)]
			if a, ok := conns[i].Account(now, l, peer(i), chance.Uint64N(100)); ok && !a.open {
				t.Fatalf("seed %d: a closed account", seed)
			}
			if len(conns[i].list) > MaxBindings || l.peers["a"] > MaxIdentities || l.peers["b"] > MaxIdentities {
				t.Fatalf("seed %d: %d bindings, names %v", seed, len(conns[i].list), l.peers)
			}
		}
		for i := range conns {
			conns[i].Close(peer(i))
		}
		if open != 0 || len(ledgers[0].named)+len(ledgers[1].named) != 0 {
			t.Errorf("seed %d: %d accounts are left", seed, open)
		}
	}
}

func TestPeerKey(t *testing.T) {
	key := func(addr string) string { return PeerKey(netip.MustParseAddr(addr), nil) }
	if key("2001:db8::1") != key("2001:db8::ffff:1") || key("2001:db8::1") == key("2001:db8:0:1::1") {
		t.Error("of IPv6 the network counts")
	}
	if key("10.0.0.1") == key("10.0.0.2") || key("10.0.0.1") != key("::ffff:10.0.0.1") || key("fe80::1%eth0") != key("fe80::1") {
		t.Error("of IPv4 the address counts")
	}
	a := PeerKey(netip.MustParseAddr("10.0.0.1"), []byte("certificate"))
	if a != PeerKey(netip.Addr{}, []byte("certificate")) || a == key("10.0.0.1") || a == PeerKey(netip.Addr{}, []byte("another")) {
		t.Error("a certificate counts, wherever it is shown")
	}
	if PeerKey(netip.Addr{}, nil) != "" {
		t.Error("no address")
	}
}
