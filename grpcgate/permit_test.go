package grpcgate

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A permit that comes for an attempt whose call is over is given back with the call's
// context: nobody picks again to take it.
func TestPermitOfACallThatIsOver(t *testing.T) {
	wallet, err := live.NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	server := wallet.Open(nil)
	server.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 0, Revive: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := &outgoing{Context: ctx}
	o.fetch(ctx, &pool{number: 1, lost: t.Context()}, wallet)
	eventually(t, "the attempt waits for a credit", func() bool { return wallet.Waiting() == 1 })
	o.end() // the call fails for another reason; its context lives on
	server.OnGrant(wire.Grant{Epoch: 1, Seq: 2, Window: 1, Revive: time.Hour})
	eventually(t, "the permit is there", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.permit != nil
	})
	if n := server.Outstanding(); n != 1 {
		t.Fatalf("%d outstanding, want the permit", n)
	}
	cancel()
	eventually(t, "the permit is back", func() bool { return server.Outstanding() == 0 })
}

// The only server drains: there is no other to go to, so it is asked as before, and it
// refuses each call itself, at once. When it is there again, calls go on.
func TestDrainOfTheOnlyServer(t *testing.T) {
	gate := newGate(t, fixed(4))
	s := serve(t, gate, &echo{}, nil)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	gate.Drain()
	for i := range 3 {
		_, err := call1(within(t), conn, "x")
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if n := gate.Stats().Shed[work.Draining]; n != 3 {
		t.Errorf("the server refused %d of 3 calls", n)
	}
	eventually(t, "all returned", settled(c, conn, gate))
	if p := poolOf(c, conn); p == nil || p.behind(accountOf(p)) == nil {
		t.Error("the pool has no account at its only server any more")
	}
}

// accountOf returns the account at the only server of p.
func accountOf(p *pool) *live.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		return b.account
	}
	return nil
}

// The only server says GOAWAY while one call runs and others wait for its credit: the one
// ends well, the others fail or go to the server that comes in its place, none hangs, and
// no credit is lost.
func TestGoAwayOfTheOnlyServer(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	old := serve(t, newGate(t, fixed(1)), &echo{handle: func(_ context.Context, req string) (string, error) {
		if req == "hold" {
			once.Do(func() { close(inside) })
			<-release
		}
		return req, nil
	}}, nil)
	conn, c := dialGated(t, old.addr, nil)
	warm(t, conn)
	var held error
	var wg sync.WaitGroup
	wg.Go(func() { _, held = call1(within(t), conn, "hold") })
	await.Value(t, inside, "a request to reach the handler")
	wg.Go(old.GracefulStop)
	eventually(t, "the server takes no connection", func() bool {
		p := poolOf(c, conn)
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.backends) == 0
	})
	var waiting [8]error
	for i := range waiting {
		wg.Go(func() { _, waiting[i] = call1(within(t), conn, "x", grpc.WaitForReady(true)) })
	}
	gate := newGate(t, fixed(4))
	serveAt(t, old.addr, gate, &echo{}, nil)
	close(release)
	await.All(t, &wg, "the clients to end")
	if held != nil {
		t.Errorf("the call inside: %v", held)
	}
	for i, err := range waiting {
		if err != nil {
			t.Errorf("call %d, which waits for a server: %v", i, err)
		}
	}
	eventually(t, "all returned", settled(c, conn, gate))
	warm(t, conn)
}

// What a wallet holds of a server is gone with the connection, and a server that is opened
// twice has one account.
func TestAccountsFollowConnections(t *testing.T) {
	s := newScript(t, false)
	s.grants(3, time.Hour)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	eventually(t, "all returned", settled(c, conn))
	p := poolOf(c, conn)
	account := accountOf(p)
	take := func() (permits []*live.Permit) {
		for permit := p.wallet.TryAcquire(t.Context()); permit != nil; permit = p.wallet.TryAcquire(context.Background()) {
			permits = append(permits, permit)
		}
		return permits
	}
	p.mu.Lock()
	var only *backend
	for _, b := range p.backends {
		only = b
	}
	p.mu.Unlock()
	p.open(only, p.wallet)
	permits := take()
	for _, permit := range permits {
		if permit.Server() != account {
			t.Error("a permit for an account that the connection does not have")
		}
		permit.Return(0)
	}
	if len(permits) != 3 {
		t.Errorf("%d permits, the server granted 3", len(permits))
	}
	s.Stop()
	eventually(t, "the connection is gone", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.backends) == 0
	})
	eventually(t, "no permit for a server that is gone", func() bool { // its account is closed next
		permits := take()
		for _, permit := range permits {
			permit.Return(0)
		}
		return len(permits) == 0
	})
}

// Answers without a grant count while they come in a row: methods that only the server
// exempts do not make it one that grants nothing.
func TestAGrantBetweenPlainAnswers(t *testing.T) {
	s := newScript(t, false)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	s.grants(2, time.Hour)
	warm(t, conn)
	granted := s.reply.Load()
	plain := func() {
		s.reply.Store(nil)
		for range plainForGood * 3 / 4 {
			if _, err := call1(within(t), conn, "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	plain()
	s.reply.Store(granted)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Fatal(err)
	}
	plain()
	eventually(t, "all returned", settled(c, conn))
	var permits []*live.Permit
	for permit := poolOf(c, conn).wallet.TryAcquire(t.Context()); permit != nil; permit = poolOf(c, conn).wallet.TryAcquire(context.Background()) {
		permits = append(permits, permit)
	}
	if len(permits) != 2 {
		t.Errorf("%d permits, the server granted 2", len(permits))
	}
	for _, permit := range permits {
		permit.Return(0)
	}
}
