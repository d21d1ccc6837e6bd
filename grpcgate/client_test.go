package grpcgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// script is a server that says what a test wants it to, beside its answers.
type script struct {
	*testServer
	reply   atomic.Pointer[func() []string] // values of the trailer
	fail    atomic.Pointer[error]
	calls   atomic.Int64
	tags    chan wire.Tags
	control chan grpc.ServerStream // streams that clients opened
	hold    chan struct{}          // closing it ends them
}

func newScript(t *testing.T, withControl bool) *script {
	t.Helper()
	s := &script{tags: make(chan wire.Tags, 100), control: make(chan grpc.ServerStream, 10), hold: make(chan struct{})}
	srv := grpc.NewServer()
	lis := listen(t)
	e := &echo{handle: func(ctx context.Context, req string) (string, error) {
		s.calls.Add(1)
		md, _ := metadata.FromIncomingContext(ctx)
		var unused atomic.Int64
		select {
		case s.tags <- tagsOf(md, nil, &unused):
		default:
		}
		if f := s.reply.Load(); f != nil {
			grpc.SetTrailer(ctx, metadata.MD{wire.MetadataKey: (*f)()})
		}
		if err := s.fail.Load(); err != nil {
			return "", *err
		}
		return req, nil
	}}
	srv.RegisterService(e.desc(), struct{}{})
	if withControl {
		srv.RegisterService(&grpc.ServiceDesc{ServiceName: controlService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
			StreamName: "Credits", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, ss grpc.ServerStream) error {
				s.control <- ss
				select {
				case <-s.hold:
				case <-ss.Context().Done():
				}
				return nil
			},
		}}}, struct{}{})
	}
	s.testServer = &testServer{Server: srv, addr: lis.Addr().String(), done: make(chan struct{})}
	go func() { defer close(s.done); srv.Serve(lis) }()
	t.Cleanup(func() { srv.Stop(); await.Value(t, s.done, "the server to stop") })
	return s
}

// grants has every reply carry the window, with rising sequence numbers.
func (s *script) grants(window uint32, revive time.Duration) {
	f := func() []string {
		g := wire.Grant{Epoch: 1, Seq: uint32(s.calls.Load()), Window: window, Revive: revive}
		return []string{string(wire.Reply{HasGrant: true, Grant: g}.Append(nil))}
	}
	s.reply.Store(&f)
}

// warm makes calls until the ClientConn is linked to its wallet and the server's
// grant is known.
func warm(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	for range 2 {
		if _, err := call1(within(t), conn, "warm"); err != nil {
			t.Fatal(err)
		}
	}
}

// empty warms up and leaves the client with a window of zero.
func (s *script) empty(t *testing.T, conn *grpc.ClientConn, revive time.Duration) {
	t.Helper()
	s.grants(1, revive)
	warm(t, conn)
	s.grants(0, revive)
	if _, err := call1(within(t), conn, "the last credit"); err != nil {
		t.Fatal(err)
	}
}

func TestTagsOnRequests(t *testing.T) {
	s := newScript(t, false)
	conn, _ := dialGated(t, s.addr, nil)
	warm(t, conn)
	await.Value(t, s.tags, "the tags of a call")
	await.Value(t, s.tags, "the tags of a call")
	ctx := live.WithTags(within(t), wire.Tags{Workflow: "shop", Class: work.Interactive, Priority: 7})
	if _, err := call1(ctx, conn, "x"); err != nil {
		t.Fatal(err)
	}
	got := await.Value(t, s.tags, "the tags of a call")
	if got.Budget != 0 {
		t.Errorf("budget %v beside that of grpc-timeout", got.Budget)
	}
	if got.Client == 0 {
		t.Error("the client has no name")
	}
	got.Client = 0
	if want := (wire.Tags{Workflow: "shop", Class: work.Interactive, Priority: 7, Credits: true}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

// Mistake 6: the caller's options are dropped.
func TestCallOptionsAreKept(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		grpc.SetHeader(ctx, metadata.Pairs("h", "1"))
		grpc.SetTrailer(ctx, metadata.Pairs("t", "2"))
		return req, nil
	}}, nil)
	conn, _ := dialGated(t, s.addr, nil)
	for range 3 {
		var header, trailer metadata.MD
		var who peer.Peer
		var finished atomic.Int64
		_, err := call1(within(t), conn, "x", grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&who),
			grpc.OnFinish(func(error) { finished.Add(1) }), grpc.WaitForReady(true))
		if err != nil || len(header["h"]) != 1 || len(trailer["t"]) != 1 || who.Addr.String() != s.addr || finished.Load() != 1 {
			t.Errorf("%v, header %v, trailer %v, peer %v, finished %d times", err, header, trailer, who.Addr, finished.Load())
		}
	}
	if _, err := call1(within(t), conn, strings.Repeat("x", 100), grpc.MaxCallRecvMsgSize(10)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v: the caller's limit on sizes is lost", err)
	}
}

// Mistake 1: one refusal, and the client waits for ever.
func TestRefusalGivesTheCreditBack(t *testing.T) {
	s := newScript(t, false)
	conn, c := dialGated(t, s.addr, nil)
	s.grants(1, time.Hour)
	warm(t, conn)
	refusal := status.Error(codes.Unavailable, "refused")
	for _, reply := range []func() []string{
		func() []string { return nil }, // without a word on credits
		func() []string {
			return []string{string(wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Delay, Retryable: true}}.Append(nil))}
		},
		func() []string { return []string{"garbage"} },
		func() []string { return []string{"\x01", "\x01"} },
	} {
		s.fail.Store(&refusal)
		s.reply.Store(&reply)
		if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		s.fail.Store(nil)
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatalf("after a refusal: %v", err)
		}
	}
	if got := c.o.counters.Malformed.Load(); got != 4 {
		t.Errorf("%d malformed replies counted, expected 4", got)
	}
	eventually(t, "all returned", settled(c, conn))
}

// A wait for credit ends with the caller's context, and a full wallet refuses.
func TestWaitHonoursTheContext(t *testing.T) {
	s := newScript(t, false)
	conn, c := dialGated(t, s.addr, []ClientOption{WithWallet(credit.WalletConfig{QueueLimit: 2})})
	s.empty(t, conn, time.Hour)
	before := s.calls.Load()

	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 3)
	go func() { _, err := call1(ctx, conn, "x"); done <- err }()
	wallet := poolOf(c, conn).wallet
	eventually(t, "the call waits", func() bool { return wallet.Waiting() == 1 })
	cancel()
	if err := await.Value(t, done, "the request to end"); status.Code(err) != codes.Canceled {
		t.Errorf("canceled while it waited: %v", err)
	}
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := call1(short, conn, "x")
	var refusal *live.Refusal
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.ResourceExhausted || !errors.As(err, &refusal) || refusal.Reason.Sent() {
		t.Errorf("expired while it waited: %v", err)
	}
	for range 3 {
		go func() { _, err := call1(within(t), conn, "x"); done <- err }()
	}
	err = await.Value(t, done, "the request to end") // the oldest of three, in a queue of two
	if info, _ := details(err); status.Code(err) != codes.ResourceExhausted || info.Reason != "WALLET_FULL" {
		t.Errorf("pushed out: %v", err)
	}
	if s.calls.Load() != before {
		t.Error("a call was sent without a credit")
	}
	conn.Close() // ends the waits of the other two
	for range 2 {
		if err := await.Value(t, done, "the request to end"); status.Code(err) != codes.Canceled {
			t.Errorf("closed: %v", err)
		}
	}
}

// The client asks on the control stream when it has no reply to come, and a
// grant there sets its calls free.
func TestControlStreamWakesADrainedClient(t *testing.T) {
	s := newScript(t, true)
	conn, c := dialGated(t, s.addr, nil)
	s.empty(t, conn, time.Hour)
	done := make(chan error, 5)
	for range 3 {
		go func() { _, err := call1(within(t), conn, "x"); done <- err }()
	}
	ss := await.Value(t, s.control, "a control stream")
	var msg wrapperspb.BytesValue
	if err := ss.RecvMsg(&msg); err != nil {
		t.Fatal(err)
	}
	tags, err := wire.ParseTags(msg.Value)
	if err != nil || !tags.Credits || tags.Demand < 1 || tags.Demand > 3 {
		t.Fatalf("%+v, %v", tags, err)
	}
	// Rubbish first: it is ignored and counted.
	ss.SendMsg(wrapperspb.Bytes([]byte("rubbish")))
	ss.SendMsg(wrapperspb.Bytes(nil))
	s.grants(3, time.Hour)
	ss.SendMsg(wrapperspb.Bytes(wire.Reply{HasGrant: true, Grant: wire.Grant{Epoch: 1, Seq: uint32(s.calls.Load()) + 1, Window: 3}}.Append(nil)))
	for range 3 {
		if err := await.Value(t, done, "the request to end"); err != nil {
			t.Error(err)
		}
	}
	if got := c.o.counters.Malformed.Load(); got != 2 {
		t.Errorf("%d malformed messages counted, expected 2", got)
	}
	// Killing the control stream does not matter while replies carry credits.
	close(s.hold)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Error(err)
	}
}

// Without any word from the server, a drained client tries again after Revive.
func TestReviveWithoutControlStream(t *testing.T) {
	s := newScript(t, false)
	conn, _ := dialGated(t, s.addr, nil)
	s.empty(t, conn, 20*time.Millisecond)
	for range 5 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlainServerIsNotLimited(t *testing.T) {
	var running atomic.Int64
	release := make(chan struct{})
	s := serve(t, nil, &echo{handle: func(_ context.Context, req string) (string, error) {
		if req == "hold" {
			running.Add(1)
			<-release
		}
		return req, nil
	}}, nil)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	var wg sync.WaitGroup
	for range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := call1(within(t), conn, "hold"); err != nil {
				t.Error(err)
			}
		}()
	}
	eventually(t, "64 calls run at once", func() bool { return running.Load() == 64 })
	close(release)
	await.All(t, &wg, "the clients to end")
	eventually(t, "all returned", settled(c, conn))
}

// While nothing is connected, calls behave as grpc's do.
func TestNotConnected(t *testing.T) {
	addr := addrForLater(t)
	conn, c := dialGated(t, addr, nil)
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("fail fast: %v, expected UNAVAILABLE", err)
	}
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := call1(short, conn, "x", grpc.WaitForReady(true)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("wait for ready: %v, expected DEADLINE_EXCEEDED", err)
	}
	done := make(chan error, 1)
	go func() { _, err := call1(within(t), conn, "x", grpc.WaitForReady(true)); done <- err }()
	gate := newGate(t, admission.Config{})
	serveAt(t, addr, gate, &echo{}, nil)
	conn.ResetConnectBackoff()
	if err := await.Value(t, done, "the request to end"); err != nil {
		t.Errorf("after the server came up: %v", err)
	}
	eventually(t, "all returned", settled(c, conn, gate))
}

// Killing the server's connections in the middle of calls loses no permit, and a
// server that comes back serves again.
func TestServerKilledMidFlight(t *testing.T) {
	gate := newGate(t, fixed(4))
	block := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(block) }) }
	defer free()
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		if req == "block" {
			select {
			case <-block:
			case <-ctx.Done():
			}
		}
		return req, nil
	}}, nil)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	for round := range 5 {
		done := make(chan error, 20)
		for range 20 {
			go func() { _, err := call1(within(t), conn, "block"); done <- err }()
		}
		eventually(t, "calls run", func() bool { return gate.Stats().Running > 0 })
		s.lis.cut()
		// Those sent fail; those that waited in the wallet fail with them or go
		// to the next connection, whose calls are cut in turn.
		for range 20 {
			select {
			case err := <-done:
				if err == nil {
					t.Errorf("round %d: a blocked call succeeded", round)
				}
			case <-time.After(50 * time.Millisecond):
				s.lis.cut()
				continue
			}
		}
		for finished := settled(c, conn, gate); !finished(); time.Sleep(5 * time.Millisecond) {
			s.lis.cut()
		}
		// The client may not have seen yet that its newest connection was cut.
		eventually(t, fmt.Sprintf("round %d: it is served again", round), func() bool {
			_, err := call1(within(t), conn, "x", grpc.WaitForReady(true))
			return err == nil
		})
	}
	eventually(t, "all returned", settled(c, conn, gate))
	eventually(t, "one account left", func() bool { return gate.Stats().Clients <= 1 })
}

// Killing clients in the middle of calls frees their tickets and credits.
func TestClientKilledMidFlight(t *testing.T) {
	gate := newGate(t, fixed(4))
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		if req == "block" {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return req, nil
	}}, nil)
	for range 5 {
		conn, _ := dialGated(t, s.addr, nil)
		warm(t, conn)
		done := make(chan error, 10)
		for range 10 {
			go func() { _, err := call1(within(t), conn, "block"); done <- err }()
		}
		eventually(t, "calls run", func() bool { return gate.Stats().Running > 0 })
		conn.Close()
		for range 10 {
			if err := await.Value(t, done, "the request to end"); err == nil {
				t.Error("a call survived its ClientConn")
			}
		}
		eventually(t, "tickets and account returned", func() bool {
			st := gate.Stats()
			return st.Running == 0 && st.Waiting == 0 && st.Clients == 0 && st.Issued == 0
		})
	}
}

func TestGracefulStopWithControlStream(t *testing.T) {
	gate := newGate(t, fixed(1))
	var counters Counters
	s := serve(t, gate, &echo{}, []Option{WithCounters(&counters)})
	conn := dial(t, s.addr)
	ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
	if err != nil {
		t.Fatal(err)
	}
	if err := ss.SendMsg(wrapperspb.Bytes(wire.Tags{Credits: true, Demand: 5}.Append(nil))); err != nil {
		t.Fatal(err)
	}
	// A client that only reports demand gets an account and a grant.
	var msg wrapperspb.BytesValue
	if err := ss.RecvMsg(&msg); err != nil {
		t.Fatal(err)
	}
	if reply, err := wire.ParseReply(msg.Value); err != nil || !reply.HasGrant || reply.Grant.Window == 0 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if gate.Stats().Clients != 1 || counters.ControlStreams.Load() != 1 {
		t.Errorf("%+v, %d streams", gate.Stats(), counters.ControlStreams.Load())
	}
	ss.CloseSend()
	if err := ss.RecvMsg(&msg); err != io.EOF {
		t.Errorf("%v, expected the end", err)
	}
	eventually(t, "stream counted off", func() bool { return counters.ControlStreams.Load() == 0 })

	// A gated client's own control stream ends with the connection's GOAWAY.
	fake := newScript(t, true)
	gated, _ := dialGated(t, fake.addr, nil)
	fake.empty(t, gated, time.Hour)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan struct{})
	go func() { call1(ctx, gated, "x"); close(done) }()
	await.Value(t, fake.control, "a control stream")
	stopped := make(chan struct{})
	go func() { fake.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Error("the control stream keeps the server from stopping")
	}
	cancel()
	await.Value(t, done, "the request to end")
}

func TestControlStreamsAreBounded(t *testing.T) {
	gate := newGate(t, fixed(1))
	var counters Counters
	s := serve(t, gate, &echo{}, []Option{WithCounters(&counters), WithControlLimit(2)})
	open := func(conn *grpc.ClientConn) error {
		ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
		if err != nil {
			return err
		}
		ss.SendMsg(wrapperspb.Bytes(wire.Tags{Credits: true, Demand: 5}.Append(nil)))
		return ss.RecvMsg(new(wrapperspb.BytesValue))
	}
	conns := []*grpc.ClientConn{dial(t, s.addr), dial(t, s.addr), dial(t, s.addr)}
	if err := errors.Join(open(conns[0]), open(conns[1])); err != nil {
		t.Fatal(err)
	}
	if err := open(conns[2]); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the third of two: %v", err)
	}
	if got := counters.ControlRefused.Load(); got != 1 {
		t.Errorf("%d refused, expected 1", got)
	}
	if _, err := call1(withTags(within(t), wire.Tags{Credits: true}), conns[2], "x"); err != nil {
		t.Errorf("a client without control stream: %v", err)
	}
	conns[0].Close()
	eventually(t, "room again", func() bool { return counters.ControlStreams.Load() == 1 })
	if err := open(conns[2]); err != nil {
		t.Error(err)
	}
	conns[1].Close()
	eventually(t, "room again", func() bool { return counters.ControlStreams.Load() == 1 })
	if err := open(conns[2]); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second stream on one connection: %v", err)
	}
	other := dial(t, serve(t, nil, &echo{}, nil).addr)
	if err := open(other); status.Code(err) != codes.Unimplemented {
		t.Errorf("a server without the service: %v", err)
	}
}

// Calls made while serving a call carry its tags; a refusal further down is
// Dropped here and not retryable for the caller.
func TestChainInOneProcess(t *testing.T) {
	leafGate := newGate(t, admission.Config{})
	var at atomic.Pointer[wire.Tags]
	leaf := serve(t, leafGate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		tags := live.TagsFrom(ctx)
		at.Store(&tags)
		return req, nil
	}}, trusting)
	down, downClient := dialGated(t, leaf.addr, []ClientOption{WithRetries(3)})
	midGate := newGate(t, admission.Config{})
	mid := serve(t, midGate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		out, err := call1(ctx, down, req)
		if err != nil {
			return "", errors.New("rewritten by the handler")
		}
		return out, nil
	}}, trusting)
	up, upClient := dialGated(t, mid.addr, nil)
	ctx := live.WithTags(within(t), wire.Tags{Workflow: "buy", Class: work.Interactive, Priority: 3})
	for range 3 {
		if _, err := call1(ctx, up, "x"); err != nil {
			t.Fatal(err)
		}
	}
	// What was a retry at the edge is one all the way.
	if _, err := call1(live.WithTags(ctx, wire.Tags{Attempt: 2}), up, "x"); err != nil || at.Load().Attempt != 2 {
		t.Errorf("attempt %d at the leaf, %v", at.Load().Attempt, err)
	}
	if _, err := call1(ctx, up, "x"); err != nil {
		t.Fatal(err)
	}
	tags := at.Load()
	if tags.Workflow != "buy" || tags.Class != work.Interactive || tags.Priority != 3 || !tags.Credits || tags.Budget <= 0 {
		t.Errorf("at the leaf: %+v", tags)
	}
	for range 100 {
		downClient.retries.Earn(context.Background(), nil, live.Now()) // it is not for want of budget that it does not retry
	}
	leafGate.Drain()
	var trailer metadata.MD
	_, err := call1(ctx, up, "x", grpc.Trailer(&trailer))
	if err == nil {
		t.Fatal("expected the refusal to show")
	}
	reply, _ := wire.ParseReply([]byte(trailer[wire.MetadataKey][0]))
	if !reply.HasShed || reply.Shed.Reason != work.Downstream || reply.Shed.Retryable || trailer["grpc-retry-pushback-ms"][0] != "-1" {
		t.Errorf("%+v, trailer %v", reply, trailer)
	}
	if st := midGate.Stats(); st.Served[work.Dropped] != 1 {
		t.Errorf("at the middle: %+v", st)
	}
	if n := downClient.o.counters.Retries.Load(); n != 0 {
		t.Errorf("%d retries in the middle: only the edge retries", n)
	}
	eventually(t, "all returned", settled(upClient, up, midGate, leafGate))
	eventually(t, "all returned", settled(downClient, down))
}

func TestRetriesStayInBudget(t *testing.T) {
	s := newScript(t, false)
	conn, c := dialGated(t, s.addr, []ClientOption{WithRetries(2)})
	warm(t, conn)
	refusal := status.Error(codes.Unavailable, "busy")
	shed := func(r wire.Shed) {
		f := func() []string { return []string{string(wire.Reply{HasShed: true, Shed: r}.Append(nil))} }
		s.fail.Store(&refusal)
		s.reply.Store(&f)
	}
	ok := func() { s.fail.Store(nil); s.reply.Store(nil) }
	sends := func() int64 {
		before := s.calls.Load()
		call1(within(t), conn, "x")
		return s.calls.Load() - before
	}
	busy := wire.Shed{Reason: work.Delay, Retryable: true, Pushback: time.Millisecond}
	shed(busy)
	if got := sends(); got != 1 {
		t.Errorf("%d attempts with a budget from 2 successes, expected 1", got)
	}
	ok()
	for range 28 {
		sends()
	}
	shed(busy)
	if got := sends(); got != 3 {
		t.Errorf("%d attempts with a budget from 30 successes, expected 3", got)
	}
	shed(wire.Shed{Reason: work.Infeasible})
	if got := sends(); got != 1 {
		t.Errorf("%d attempts of what is not retryable, expected 1", got)
	}
	ok()
	for range 2000 {
		c.retries.Earn(context.Background(), nil, live.Now())
	}
	shed(busy)
	before := s.calls.Load()
	for range 50 {
		call1(within(t), conn, "x")
	}
	if got := s.calls.Load() - before; got != 60 {
		t.Errorf("%d attempts of 50 calls, expected 60: at most 10 retries are saved up", got)
	}
	if c.o.counters.RetriesDenied.Load() == 0 {
		t.Error("denied retries are not counted")
	}
	// A second attempt says so.
	for len(s.tags) > 0 {
		await.Value(t, s.tags, "the tags of a call")
	}
	for range 10 {
		c.retries.Earn(context.Background(), nil, live.Now())
	}
	call1(within(t), conn, "x")
	first, second := await.Value(t, s.tags, "the tags of a call"), await.Value(t, s.tags, "the tags of a call")
	if first.Attempt != 0 || second.Attempt != 1 {
		t.Errorf("attempts %d and %d, expected 0 and 1", first.Attempt, second.Attempt)
	}
	// What it waited counts from the first.
	if second.Waited < busy.Pushback || second.Waited < first.Waited {
		t.Errorf("the second attempt says that it waited %v, the first %v; between them were at least %v", second.Waited, first.Waited, busy.Pushback)
	}
}

// grpc's own retries take a credit for each attempt and give each back.
func TestGrpcRetryPolicy(t *testing.T) {
	s := newScript(t, false)
	conn, c := dialGated(t, s.addr, []ClientOption{WithServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":
		{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.002s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`)})
	s.grants(1, time.Hour)
	warm(t, conn)
	refusal := status.Error(codes.Unavailable, "busy")
	s.fail.Store(&refusal)
	before := s.calls.Load()
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if got := s.calls.Load() - before; got != 4 {
		t.Errorf("%d attempts, the policy says 4", got)
	}
	for range before {
		await.Value(t, s.tags, "the tags of a call")
	}
	for want := range 4 {
		if got := await.Value(t, s.tags, "the tags of a call").Attempt; got != want {
			t.Errorf("attempt %d, expected %d", got, want)
		}
	}
	eventually(t, "all returned", settled(c, conn))
	// With no credit left for the second attempt it waits for one, as the first
	// would have.
	s.grants(0, 30*time.Millisecond)
	before = s.calls.Load()
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if got := s.calls.Load() - before; got != 4 {
		t.Errorf("%d attempts, the policy says 4", got)
	}
	eventually(t, "all returned", settled(c, conn))
	s.fail.Store(nil)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Error(err)
	}
}

// several dials one ClientConn to many servers.
func several(t *testing.T, opts []ClientOption, addrs ...string) (*grpc.ClientConn, *client, *manual.Resolver) {
	t.Helper()
	r := manual.NewBuilderWithScheme("several")
	r.InitialState(resolver.State{Addresses: addresses(addrs...)})
	conn, c := dialGated(t, "several:///x", opts, grpc.WithResolvers(r))
	return conn, c, r
}

func addresses(addrs ...string) (list []resolver.Address) {
	for _, a := range addrs {
		list = append(list, resolver.Address{Addr: a})
	}
	return list
}

// A call goes to the server with the most free credits.
func TestBalancingFollowsCredits(t *testing.T) {
	wide, narrow := newScript(t, false), newScript(t, false)
	wide.grants(90, time.Hour)
	narrow.grants(1, time.Hour)
	conn, c, _ := several(t, nil, wide.addr, narrow.addr)
	conn.Connect()
	for conn.GetState() != connectivity.Ready {
		conn.WaitForStateChange(within(t), conn.GetState())
	}
	for wide.calls.Load() < 3 || narrow.calls.Load() < 3 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
		if wide.calls.Load() > 300 {
			break
		}
	}
	wideBefore, narrowBefore := wide.calls.Load(), narrow.calls.Load()
	var wg sync.WaitGroup
	for range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				if _, err := call1(within(t), conn, "x"); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	await.All(t, &wg, "the clients to end")
	w, n := wide.calls.Load()-wideBefore, narrow.calls.Load()-narrowBefore
	if w+n != 400 || n > 100 {
		t.Errorf("%d calls to the server with 90 credits, %d to the one with 1", w, n)
	}
	eventually(t, "all returned", settled(c, conn))
}

// Servers come, go and drain; calls go on.
func TestServersComeAndGo(t *testing.T) {
	gates := []*live.Gate{newGate(t, fixed(8)), newGate(t, fixed(8)), newGate(t, fixed(8))}
	var servers []*testServer
	for _, g := range gates {
		servers = append(servers, serve(t, g, &echo{}, nil))
	}
	conn, c, r := several(t, nil, servers[0].addr, servers[1].addr)
	served := func(i int) uint64 { return gates[i].Stats().Served[work.Done] }
	some := func(n int) {
		t.Helper()
		for range n {
			if _, err := call1(within(t), conn, "x", grpc.WaitForReady(true)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "both serve", func() bool { some(5); return served(0) > 5 && served(1) > 5 })

	// One drains: a call or so may be refused there, and the rest goes to the other.
	gates[0].Drain()
	drained := served(0)
	refused := 0
	for range 100 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
			refused++
		}
	}
	if refused > 50 || served(0) != drained {
		t.Errorf("%d of 100 calls refused by the server that drains, %d served", refused, served(0)-drained)
	}

	// The resolver replaces the drained one.
	r.UpdateState(resolver.State{Addresses: addresses(servers[1].addr, servers[2].addr)})
	eventually(t, "the new one serves", func() bool { some(5); return served(2) > 5 })
	eventually(t, "the old one's account is closed", func() bool { return gates[0].Stats().Clients == 0 })

	// One stops gracefully, in the middle of calls.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := call1(within(t), conn, "x"); err != nil {
					failed.Add(1)
					t.Error(err)
					return
				}
			}
		}()
	}
	before := served(2)
	eventually(t, "calls flow", func() bool { return served(2) > before+20 })
	servers[1].GracefulStop()
	before = served(2)
	eventually(t, "calls flow after the stop", func() bool { return served(2) > before+100 || failed.Load() > 0 })
	close(stop)
	await.All(t, &wg, "the clients to end")
	eventually(t, "all returned", settled(c, conn, gates...))
}

// Many clients of a small server: windows of zero exist, and nobody starves.
func TestMoreClientsThanCredits(t *testing.T) {
	cfg := fixed(1)
	cfg.Objective = time.Second // in which a busy machine serves some
	gate := newGate(t, cfg)
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		time.Sleep(time.Millisecond)
		return req, nil
	}}, nil)
	const clients = 60
	var wg sync.WaitGroup
	for i := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			conn, c := dialGated(t, s.addr, nil)
			defer conn.Close()
			for done := 0; done < 3; {
				_, err := call1(within(t), conn, "x")
				switch status.Code(err) {
				case codes.OK:
					done++
				case codes.Unavailable, codes.ResourceExhausted:
					time.Sleep(20 * time.Millisecond) // else the clients leave a busy machine no time for the server
				default:
					t.Errorf("client %d after %d calls: %v", i, done, err)
					return
				}
			}
			eventually(t, "all returned", settled(c, conn))
		}()
	}
	await.All(t, &wg, "the clients to end")
	eventually(t, "all accounts closed", func() bool { st := gate.Stats(); return st.Clients == 0 && st.Issued == 0 && st.Running == 0 })
}

func TestMistakesInOptions(t *testing.T) {
	s := newScript(t, false)
	conn, _ := dialGated(t, s.addr, []ClientOption{WithWallet(credit.WalletConfig{QueueLimit: -1, MaxWait: -1})})
	_, err := call1(within(t), conn, "x")
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "QueueLimit") || !strings.Contains(err.Error(), "MaxWait") {
		t.Errorf("%v, expected every mistake", err)
	}
	if _, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, watchMethod); status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	if _, err := grpc.NewClient("x", append(DialOptions(WithServiceConfig("{")), insecureCreds())...); err == nil {
		t.Error("a service config that is not JSON was accepted")
	}
	if got := serviceConfig(`{"loadBalancingConfig":[{"pick_first":{}}]}`); strings.Contains(got, BalancerName) {
		t.Errorf("the user's own policy is overruled: %s", got)
	}
}

// Another balancer works, without credits, and says so: once in the log, and in a counter.
func TestForeignBalancer(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(was)
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	calls := func(config string) int64 {
		var counters Counters
		conn, _ := dialGated(t, s.addr, []ClientOption{WithServiceConfig(config), WithCounters(&counters)})
		conn.Connect() // the first answer may come before the state
		eventually(t, "connected", func() bool { return conn.GetState() == connectivity.Ready })
		for range 20 {
			if _, err := call1(within(t), conn, "x"); err != nil {
				t.Fatal(err)
			}
		}
		return counters.Uncredited.Load()
	}
	if n := calls(`{"loadBalancingConfig":[{"round_robin":{}}]}`); n != 20 {
		t.Errorf("%d of 20 calls of another balancer count as sent without credits", n)
	}
	if got := gate.Stats().Clients; got != 0 {
		t.Errorf("%d accounts for a client that does not obey credits", got)
	}
	if n := calls(`{}`); n != 0 {
		t.Errorf("%d calls of Spillgate's balancer count as sent without credits", n)
	}
	if n := strings.Count(log.String(), "without credits"); n != 1 {
		t.Errorf("the log says %d times that calls are sent without credits, expected once:\n%s", n, &log)
	}
}

// An idle ClientConn gives its account up and comes back.
func TestIdleAndBack(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn, c := dialGated(t, s.addr, nil, grpc.WithIdleTimeout(50*time.Millisecond))
	for range 3 {
		warm(t, conn)
		eventually(t, "idle", func() bool { return poolOf(c, conn) == nil && gate.Stats().Clients == 0 })
	}
}

func TestStreamsGiveTheirCreditBack(t *testing.T) {
	gate := newGate(t, fixed(8))
	s := serve(t, gate, &echo{chat: func(ss grpc.ServerStream) error {
		for {
			var m wrapperspb.StringValue
			if err := ss.RecvMsg(&m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if m.Value == "fail" {
				return status.Error(codes.Aborted, "as told")
			}
			if err := ss.SendMsg(&m); err != nil {
				return err
			}
		}
	}}, nil)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	outstanding := func() int {
		p := poolOf(c, conn)
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 0
		for _, b := range p.backends {
			n += b.account.Outstanding()
		}
		return n
	}
	for _, end := range []string{"half-close", "error", "cancel"} {
		ctx, cancel := context.WithCancel(within(t))
		ss, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod)
		if err != nil {
			t.Fatal(err)
		}
		var m wrapperspb.StringValue
		for i := range 3 {
			ss.SendMsg(wrapperspb.String(fmt.Sprint(i)))
			if err := ss.RecvMsg(&m); err != nil || m.Value != fmt.Sprint(i) {
				t.Fatal(m.Value, err)
			}
			if got := outstanding(); got != 1 {
				t.Errorf("%d credits in use by one stream", got)
			}
		}
		switch end {
		case "half-close":
			ss.CloseSend()
		case "error":
			ss.SendMsg(wrapperspb.String("fail"))
		case "cancel":
			cancel()
		}
		err = ss.RecvMsg(&m)
		if err == nil {
			t.Errorf("%s: the stream goes on", end)
		}
		eventually(t, end+": credit returned", settled(c, conn, gate))
		cancel()
	}
}

// A gate that is turned off stops granting, and its clients stop waiting.
func TestGateTurnedOff(t *testing.T) {
	gate := newGate(t, fixed(1))
	var running atomic.Int64
	release := make(chan struct{})
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		if req == "hold" {
			running.Add(1)
			<-release
		}
		return req, nil
	}}, nil)
	conn, c := dialGated(t, s.addr, nil)
	warm(t, conn)
	gate.SetMode(live.Off)
	for range plainForGood + 1 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := call1(within(t), conn, "hold"); err != nil {
				t.Error(err)
			}
		}()
	}
	eventually(t, "100 calls run at once", func() bool { return running.Load() == 100 })
	gate.SetMode(live.Enforce)
	close(release)
	await.All(t, &wg, "the clients to end")
	warm(t, conn)
	eventually(t, "all returned", settled(c, conn, gate))
}

// A server that reports itself unhealthy is not sent to, and comes back.
func TestHealthChecks(t *testing.T) {
	gates := []*live.Gate{newGate(t, fixed(8)), newGate(t, fixed(8))}
	var checks []*health.Server
	var addrs []string
	for _, gate := range gates {
		srv, hs, lis := grpc.NewServer(ServerOptions(gate)...), health.NewServer(), listen(t)
		e := &echo{handle: func(_ context.Context, req string) (string, error) { return req, nil }}
		srv.RegisterService(e.desc(), struct{}{})
		grpc_health_v1.RegisterHealthServer(srv, hs)
		go Serve(srv, lis)
		defer srv.Stop()
		checks, addrs = append(checks, hs), append(addrs, lis.Addr().String())
	}
	conn, c, _ := several(t, []ClientOption{WithServiceConfig(`{"healthCheckConfig":{"serviceName":""}}`)}, addrs...)
	served := func(i int) uint64 { return gates[i].Stats().Served[work.Done] }
	one := func() {
		t.Helper()
		if _, err := call1(within(t), conn, "x", grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both serve", func() bool { one(); return served(0) > 3 && served(1) > 3 })
	checks[0].SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	connected := func() int {
		p := poolOf(c, conn)
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.backends)
	}
	eventually(t, "one is left", func() bool { return connected() == 1 })
	before := served(0)
	for range 20 {
		one()
	}
	if served(0) != before {
		t.Error("calls went to a server that is not healthy")
	}
	// With none left, calls fail fast instead of waiting for credits.
	checks[1].SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	eventually(t, "none is left", func() bool { return connected() == 0 })
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, expected UNAVAILABLE", err)
	}
	checks[0].SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	one()
	eventually(t, "all returned", settled(c, conn, gates...))
}
