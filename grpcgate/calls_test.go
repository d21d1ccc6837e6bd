package grpcgate

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// What becomes of a client's calls is counted by the target of its ClientConn: answers,
// application errors among them, refusals of the server and of the wallet, and failures.
func TestCallsAreCounted(t *testing.T) {
	held, entered := make(chan struct{}), make(chan struct{}, 64)
	gate := newGate(t, fixed(1))
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		switch req {
		case "held":
			entered <- struct{}{}
			<-held
		case "wrong":
			return "", status.Error(codes.InvalidArgument, "wrong")
		}
		return req, nil
	}}, nil)
	sent := new(live.Calls)
	conn := dial(t, s.addr, DialOptions(WithCalls(sent), WithWallet(credit.WalletConfig{MaxWait: time.Millisecond}))...)
	count := func(f live.Fate, r work.Reason) (n uint64) {
		sent.Each(func(name string, target *live.Target) {
			if name != s.addr {
				t.Errorf("a target called %q, expected %q", name, s.addr)
			}
			target.Counts(func(fate live.Fate, reason work.Reason, k uint64) {
				if fate == f && reason == r {
					n += k
				}
			})
		})
		return n
	}
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := call1(within(t), conn, "wrong"); status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	if n := count(live.Answered, work.None); n != 2 {
		t.Errorf("%d answers, expected 2", n)
	}
	state := sent.Target(s.addr).State()
	if !state.Credited || state.Window < 1 || state.Waiting != 0 {
		t.Errorf("the client has %+v", state)
	}
	done := make(chan error, 64)
	for range cap(done) {
		go func() { _, err := call1(within(t), conn, "held"); done <- err }()
	}
	await.Value(t, entered, "a request to reach the handler")
	eventually(t, "the wallet refuses", func() bool { return count(live.Unsent, work.WalletExpired) > 0 })
	gate.Drain()
	close(held)
	for range cap(done) {
		await.Value(t, done, "the request to end")
	}
	_, err := call1(within(t), conn, "late")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a draining server answered %v", err)
	}
	if count(live.Refused, work.Draining) == 0 {
		t.Error("what the server refused is not counted")
	}
	down := dial(t, "127.0.0.1:1", DialOptions(WithCalls(sent))...)
	if _, err := call1(within(t), down, "x", grpc.WaitForReady(false)); err == nil {
		t.Error("a call to nobody was answered")
	}
}

// A client that counts nothing counts nothing.
func TestCallsWithoutACount(t *testing.T) {
	s := serve(t, newGate(t, fixed(1)), &echo{}, nil)
	conn := dial(t, s.addr, DialOptions()...)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Fatal(err)
	}
	var none *live.Calls
	none.Target("x").Count(live.Answered, work.None)
	none.Target("x").Watch(nil)()
}

// An attempt whose connection ends between its pick and its sending is none: grpc picks again.
func TestAttemptsThatWereNotSentAreNotCounted(t *testing.T) {
	wallet, err := live.NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	server := wallet.Open(nil)
	permit, err := wallet.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var calls live.Calls
	p := &picker{pool: &pool{wallet: wallet, called: calls.Target("x")}}
	p.send(&outgoing{Context: t.Context()}, permit, &backend{account: server}).Done(balancer.DoneInfo{})
	if n := server.Outstanding(); n != 0 {
		t.Errorf("%d credits are out", n)
	}
	calls.Target("x").Counts(func(fate live.Fate, _ work.Reason, n uint64) { t.Errorf("%d are counted as %v", n, fate) })
}
