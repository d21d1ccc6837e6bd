package grpcgate

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A call that is given up while its credit is fetched, as one that began before the first call was sent, is counted once.
func TestCallsThatAreGivenUpAreCountedOnce(t *testing.T) {
	held, entered, begun, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var came atomic.Bool
	s := serve(t, newGate(t, fixed(4)), &echo{handle: func(ctx context.Context, req string) (string, error) {
		switch req {
		case "held":
			close(entered)
			<-held
		case "late": // after a second without an answer, it is sent without a credit
			came.Store(true)
			<-ctx.Done()
		}
		return req, nil
	}}, nil)
	pause := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if req.(*wrapperspb.StringValue).Value == "late" {
			close(begun)
			<-goOn
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	var calls live.Calls
	conn := dial(t, s.addr, append(DialOptions(WithCalls(&calls), WithWallet(credit.WalletConfig{FirstFlight: 1})), grpc.WithChainUnaryInterceptor(pause))...)
	target := calls.Target(conn.Target())
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _, err := call1(ctx, conn, "late"); ended <- err }()
	await.Value(t, begun, "the call to begin")
	go func() { _, err := call1(within(t), conn, "held"); ended <- err }()
	await.Value(t, entered, "the other call to reach the handler")
	close(goOn)
	eventually(t, "the call waits for a credit", func() bool { return target.State().Waiting == 1 || came.Load() })
	cancel()
	if err := await.Value(t, ended, "the call to end"); status.Code(err) != codes.Canceled {
		t.Errorf("the call ended with %v", err)
	}
	close(held)
	if err := await.Value(t, ended, "the other call to end"); err != nil {
		t.Error(err)
	}
	eventually(t, "nothing waits", func() bool { return target.State().Waiting == 0 })
	warm(t, conn)
	n := uint64(0)
	target.Counts(func(fate live.Fate, _ work.Reason, k uint64) {
		if fate != live.Answered {
			n += k
		}
	})
	if n != 1 {
		t.Errorf("the call is counted %d times", n)
	}
}

// A server that has no credits is asked for them with the first calls alone: to ask again would limit what runs there until an answer
// comes. One that had some and grants none any more is asked again, also if an old grant of it comes late.
func TestServersWithoutCreditsAreNotAskedAgain(t *testing.T) {
	s := serve(t, nil, &echo{}, nil)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	p := poolOf(c, conn)
	asks := func() bool {
		permit, err := p.wallet.Acquire(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer permit.Return(0)
		return permit.Asks()
	}
	call := func() {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * plainForGood {
		if call(); asks() {
			t.Fatalf("after %d more calls the server is asked", i+1)
		}
	}
	permit, err := p.wallet.Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	permit.ReturnWith(wire.Grant{Epoch: 1, Seq: 1, Window: 4, Revive: time.Hour}, 0)
	for range 2 * plainForGood {
		call()
	}
	if n, credited := permit.Server().Window(); credited {
		t.Errorf("the client has %d credits of a server that grants none", n)
	}
}
