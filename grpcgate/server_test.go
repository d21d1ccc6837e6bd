package grpcgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// details returns the ErrorInfo and RetryInfo of an error's status.
func details(err error) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	return info, retry
}

// withTags is a plain client's way of sending what a credit client sends.
func withTags(ctx context.Context, t wire.Tags) context.Context {
	return metadata.AppendToOutgoingContext(ctx, wire.MetadataKey, string(t.Append(nil)))
}

// occupy fills every slot of a gate with n slots until the function returned is
// called.
func occupy(t *testing.T, gate *live.Gate, n int) (release func()) {
	t.Helper()
	var tickets []*live.Ticket
	for range n {
		ticket, err := gate.Enter(context.Background(), live.Request{})
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	return sync.OnceFunc(func() {
		for _, ticket := range tickets {
			ticket.Leave(work.Ignored)
		}
	})
}

func TestRefusalTellsTheClientEverything(t *testing.T) {
	cfg := fixed(1)
	cfg.QueueLimit = 1
	gate := newGate(t, cfg)
	var ran atomic.Int64
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) { ran.Add(1); return req, nil }}, nil)
	conn := dial(t, s.addr)
	gate.Drain()
	var trailer metadata.MD
	_, err := call1(withTags(within(t), wire.Tags{Credits: true, Demand: 3, Asks: true}), conn, "x", grpc.Trailer(&trailer))
	if status.Code(err) != codes.Unavailable || ran.Load() != 0 {
		t.Fatalf("%v after %d runs of the handler, expected UNAVAILABLE after none", err, ran.Load())
	}
	info, retry := details(err)
	if info == nil || info.Domain != "spillgate" || info.Reason != "DRAINING" || retry == nil || retry.RetryDelay.AsDuration() <= 0 {
		t.Errorf("details %v, %v", info, retry)
	}
	if got := trailer["grpc-retry-pushback-ms"]; len(got) != 1 || got[0] == "-1" || got[0] == "0" {
		t.Errorf("pushback %q", got)
	}
	reply, err := wire.ParseReply([]byte(trailer[wire.MetadataKey][0]))
	if err != nil || !reply.HasGrant || !reply.HasShed || reply.Shed.Reason != work.Draining || !reply.Shed.Retryable || reply.HasProgress {
		t.Errorf("%+v, %v", reply, err)
	}
	// A plain client gets the status and pushback, and nothing it cannot read.
	trailer = nil
	_, err = call1(within(t), conn, "x", grpc.Trailer(&trailer))
	if status.Code(err) != codes.Unavailable || len(trailer[wire.MetadataKey]) != 0 || len(trailer["grpc-retry-pushback-ms"]) != 1 {
		t.Errorf("%v, trailer %v", err, trailer)
	}
}

func TestStatusOfEachReason(t *testing.T) {
	for r := work.None + 1; int(r) < work.NumReasons; r++ {
		pushback := time.Duration(-1)
		if r.Retryable() {
			pushback = 1500 * time.Microsecond
		}
		err := refusalError(&live.Refusal{Reason: r, Pushback: pushback})
		var want codes.Code
		switch r {
		case work.WalletFull, work.WalletExpired, work.RetryBudget, work.Share, work.Rate:
			want = codes.ResourceExhausted
		case work.Expired, work.Infeasible:
			want = codes.DeadlineExceeded
		case work.Canceled:
			want = codes.Canceled
		default:
			want = codes.Unavailable
		}
		info, retry := details(err)
		if status.Code(err) != want || info.Reason != strings.ToUpper(r.String()) || (retry != nil) != r.Retryable() {
			t.Errorf("%v: %v, %v, %v", r, err, info, retry)
		}
		var back *live.Refusal
		if !errors.As(err, &back) || back.Reason != r {
			t.Errorf("%v: errors.As does not find the refusal", r)
		}
	}
	if got := pushbackText(1500 * time.Microsecond); got != "2" {
		t.Errorf("pushback %q, expected to be rounded up to 2", got)
	}
	if got := pushbackText(-time.Hour); got != "-1" {
		t.Errorf("pushback %q, expected -1", got)
	}
}

// The trailer is written after the handler, so the grant knows of what came
// meanwhile. (Mistake 7: credits sent before the handler runs.)
func TestGrantIsMadeAfterTheHandler(t *testing.T) {
	gate := newGate(t, admission.Config{})
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		if req == "slow" {
			close(entered)
			<-leave
		}
		return req, nil
	}}, nil)
	conn := dial(t, s.addr)
	ctx := withTags(within(t), wire.Tags{Credits: true, Asks: true})
	seq := func(md metadata.MD) uint32 {
		reply, err := wire.ParseReply([]byte(md[wire.MetadataKey][0]))
		if err != nil || !reply.HasGrant {
			t.Fatalf("%+v, %v", reply, err)
		}
		return reply.Grant.Seq
	}
	var slow, fast metadata.MD
	done := make(chan error, 1)
	go func() {
		_, err := call1(ctx, conn, "slow", grpc.Trailer(&slow))
		done <- err
	}()
	await.Value(t, entered, "a request to reach the handler")
	if _, err := call1(ctx, conn, "fast", grpc.Trailer(&fast)); err != nil {
		t.Fatal(err)
	}
	close(leave)
	if err := await.Value(t, done, "the request to end"); err != nil {
		t.Fatal(err)
	}
	if a, b := seq(slow), seq(fast); int32(a-b) <= 0 {
		t.Errorf("the slow call's grant has sequence %d, that of a call which began later and ended sooner %d", a, b)
	}
}

func TestErrorsAndPanicsReturnTheTicket(t *testing.T) {
	gate := newGate(t, fixed(4))
	// grpc does not recover panics; a user's interceptor outside ours does.
	recovering := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = status.Errorf(codes.Internal, "recovered %v", r)
			}
		}()
		return handle(ctx, req)
	}
	var waited atomic.Uint64
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		switch req {
		case "panic":
			panic("at the handler")
		case "error":
			return "", status.Error(codes.NotFound, "no such thing")
		case "below":
			err, _ := status.New(codes.Unavailable, "x").WithDetails(&errdetails.ErrorInfo{Domain: "spillgate"})
			return "", err.Err()
		case "canceled":
			waited.Add(1)
			<-ctx.Done()
			return "", ctx.Err()
		}
		return req, nil
	}}, nil, grpc.UnaryInterceptor(recovering))
	conn := dial(t, s.addr)
	ctx := withTags(within(t), wire.Tags{Credits: true, Asks: true})
	for i, tt := range []struct {
		msg     string
		code    codes.Code
		outcome work.Outcome
	}{
		{"panic", codes.Internal, work.Ignored},
		{"error", codes.NotFound, work.Done},
		{"below", codes.Unavailable, work.Dropped},
		{"canceled", codes.DeadlineExceeded, work.Ignored},
	} {
		before := gate.Stats().Served
		var trailer metadata.MD
		call := func(ctx context.Context) {
			if _, err := call1(ctx, conn, tt.msg, grpc.Trailer(&trailer)); status.Code(err) != tt.code {
				t.Errorf("%s: %v, expected %v", tt.msg, err, tt.code)
			}
		}
		ran := func() uint64 { return 1 }
		if tt.msg == "canceled" {
			ran = waited.Load
			eventually(t, "a call to reach the handler in time", func() bool { // on a busy machine the first may not
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				call(short)
				return ran() > 0
			})
		} else {
			call(ctx)
		}
		eventually(t, fmt.Sprintf("%d: %s counted as %v", i, tt.msg, tt.outcome), func() bool {
			return gate.Stats().Served[tt.outcome] == before[tt.outcome]+ran()
		})
		if tt.msg == "canceled" {
			continue // the client made up the end itself
		}
		reply, err := wire.ParseReply([]byte(trailer[wire.MetadataKey][0]))
		if err != nil || !reply.HasGrant {
			t.Errorf("%s: no credits on the error: %+v, %v", tt.msg, reply, err)
		}
		if reply.HasShed != (tt.outcome == work.Dropped) {
			t.Errorf("%s: %+v", tt.msg, reply)
		}
	}
	if got := gate.Stats(); got.Running != 0 {
		t.Errorf("%d still running", got.Running)
	}
}

func TestMalformedMetadataIsIgnoredAndCounted(t *testing.T) {
	gate := newGate(t, admission.Config{})
	var counters Counters
	var seen atomic.Pointer[wire.Tags]
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		tags := live.TagsFrom(ctx)
		seen.Store(&tags)
		return req, nil
	}}, []Option{WithCounters(&counters), WithTrust(Everyone)})
	conn := dial(t, s.addr)
	good := string(wire.Tags{Workflow: "w", Credits: true}.Append(nil))
	for _, tt := range []struct {
		name string
		kv   []string
		want wire.Tags
		bad  int64
	}{
		{"good", []string{wire.MetadataKey, good}, wire.Tags{Workflow: "w", Credits: true}, 0},
		{"garbage", []string{wire.MetadataKey, "\xff\x00garbage"}, wire.Tags{}, 1},
		{"empty", []string{wire.MetadataKey, ""}, wire.Tags{}, 1},
		{"twice", []string{wire.MetadataKey, good, wire.MetadataKey, good}, wire.Tags{}, 1},
		{"huge", []string{wire.MetadataKey, good + strings.Repeat("\xff\xffx", 1000)}, wire.Tags{}, 1},
		{"class of tomorrow", []string{wire.MetadataKey, "\x01\x03\x01\x09"}, wire.Tags{}, 1},
		{"version of tomorrow", []string{wire.MetadataKey, "\x02"}, wire.Tags{}, 1},
		{"budget negative", []string{wire.MetadataKey, "\x01\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff"}, wire.Tags{}, 1},
		{"baggage", []string{"baggage", "a=b,spillgate.workflow=w,spillgate.class=interactive"}, wire.Tags{Workflow: "w", Class: work.Interactive}, 0},
		{"baggage bad", []string{"baggage", "spillgate.priority=900"}, wire.Tags{}, 1},
		{"baggage twice", []string{"baggage", "spillgate.workflow=w", "baggage", "spillgate.workflow=v"}, wire.Tags{}, 1},
		{"baggage half bad", []string{"baggage", "spillgate.workflow=w", "baggage", "spillgate.priority=-1"}, wire.Tags{}, 1},
		{"baggage overlong", []string{"baggage", "spillgate.workflow=w", "baggage", strings.Repeat("a=b,", 2500)}, wire.Tags{}, 1},
		{"baggage in two", []string{"baggage", "spillgate.workflow=w", "baggage", "spillgate.priority=9"}, wire.Tags{Workflow: "w", Priority: 9}, 0},
	} {
		before := counters.Malformed.Load()
		if _, err := call1(metadata.AppendToOutgoingContext(within(t), tt.kv...), conn, "x"); err != nil {
			t.Errorf("%s: %v: a call must not fail for its tags", tt.name, err)
		}
		got := *seen.Load()
		got.Budget = 0 // as grpc says it
		if got != tt.want {
			t.Errorf("%s: %+v, expected %+v", tt.name, got, tt.want)
		}
		if got := counters.Malformed.Load() - before; got != tt.bad {
			t.Errorf("%s: counted %d, expected %d", tt.name, got, tt.bad)
		}
	}
}

func TestPlainClientStaysPlain(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn := dial(t, s.addr)
	for range 20 {
		var trailer metadata.MD
		if _, err := call1(within(t), conn, "x", grpc.Trailer(&trailer)); err != nil || len(trailer) != 0 {
			t.Fatalf("%v, trailer %v", err, trailer)
		}
	}
	if got := gate.Stats(); got.Clients != 0 || got.Served[work.Done] != 20 {
		t.Errorf("%+v", got)
	}
}

// Mistake 5: without deregistration, dead clients keep the credits.
func TestShortLivedClientsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("400 connections")
	}
	gate := newGate(t, fixed(8))
	s := serve(t, gate, &echo{}, nil)
	var wg sync.WaitGroup
	enough := time.Now().Add(patience / 2) // a busy machine gets fewer connections
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < 400/16 && (i < 20 || time.Now().Before(enough)); i++ {
				ctx := withTags(within(t), wire.Tags{Credits: true, Demand: 10, Asks: true})
				conn, err := grpc.NewClient(s.addr, insecureCreds())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := call1(ctx, conn, "x"); err != nil && status.Code(err) != codes.Unavailable && status.Code(err) != codes.ResourceExhausted {
					t.Error(err)
				}
				conn.Close()
			}
		}()
	}
	await.All(t, &wg, "the clients to end")
	eventually(t, "all accounts closed", func() bool { st := gate.Stats(); return st.Clients == 0 && st.Issued == 0 })
	conn, c := dialGated(t, s.addr, nil)
	for range 50 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	st := gate.Stats()
	if st.Clients != 1 || st.Issued < 2 {
		t.Errorf("the one live client of a server with 8 slots holds %d credits: %+v", st.Issued, st)
	}
	eventually(t, "all returned", settled(c, conn, gate))
}

func TestExempt(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, []Option{WithExempt("test.Echo")})
	gate.Drain()
	conn, _ := dialGated(t, s.addr, nil)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Errorf("exempt by option: %v", err)
	}
	if st := gate.Stats(); st.Served != [work.NumOutcomes]uint64{} || st.Clients != 0 {
		t.Errorf("exempt calls reached the gate: %+v", st)
	}
	e := newExemptions()
	for method, want := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/grpc.health.v1.Health/Watch": true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		controlMethod: true, echoMethod: false, "": false, "/": false, "//": false,
	} {
		if got := e.has(method); got != want {
			t.Errorf("%q: exempt %v, expected %v", method, got, want)
		}
	}
}

// More calls run at once than goroutines are kept for handlers.
func TestMoreHandlersThanAreKept(t *testing.T) {
	const calls = keptHandlers + 8
	var inside atomic.Int32
	full := make(chan struct{})
	s := serve(t, newGate(t, fixed(calls)), &echo{handle: func(ctx context.Context, req string) (string, error) {
		if inside.Add(1) == calls {
			close(full)
		}
		select {
		case <-full:
		case <-ctx.Done():
		}
		return req, ctx.Err()
	}}, nil)
	conn, ctx := dial(t, s.addr), within(t)
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := call1(ctx, conn, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestHealthPassesADrainingGate(t *testing.T) {
	gate := newGate(t, admission.Config{})
	hs := health.NewServer()
	srv := grpc.NewServer(ServerOptions(gate)...)
	grpc_health_v1.RegisterHealthServer(srv, hs)
	lis := listen(t)
	go srv.Serve(lis)
	defer srv.Stop()
	gate.Drain()
	conn, _ := dialGated(t, lis.Addr().String(), nil)
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(within(t), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestBudgetTagWinsWhenShorter(t *testing.T) {
	gate := newGate(t, admission.Config{})
	left := make(chan time.Duration, 1)
	s := serve(t, gate, &echo{
		handle: func(ctx context.Context, req string) (string, error) {
			d, ok := ctx.Deadline()
			if !ok {
				d = time.Now().Add(-time.Hour)
			}
			left <- time.Until(d)
			return req, nil
		},
		chat: func(ss grpc.ServerStream) error {
			d, _ := ss.Context().Deadline()
			left <- time.Until(d)
			return nil
		},
	}, nil)
	conn := dial(t, s.addr)
	if _, err := call1(withTags(within(t), wire.Tags{Budget: 50 * time.Second}), conn, "x"); err != nil {
		t.Fatal(err)
	}
	if d := await.Value(t, left, "what the handler saw"); d > 50*time.Second || d < 0 {
		t.Errorf("%v left, the tag said 50s", d)
	}
	long, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := call1(withTags(long, wire.Tags{Budget: time.Hour}), conn, "x"); err != nil {
		t.Fatal(err)
	}
	if d := await.Value(t, left, "what the handler saw"); d > 30*time.Second || d < 0 {
		t.Errorf("%v left, grpc-timeout said 30s", d)
	}
	ss, err := conn.NewStream(withTags(within(t), wire.Tags{Budget: 50 * time.Second}), &grpc.StreamDesc{ServerStreams: true}, watchMethod)
	if err != nil {
		t.Fatal(err)
	}
	ss.SendMsg(wrapperspb.String(""))
	ss.CloseSend()
	if d := await.Value(t, left, "what the handler saw"); d > 50*time.Second || d < 0 {
		t.Errorf("%v left in a stream, the tag said 50s", d)
	}
	if err := ss.RecvMsg(new(wrapperspb.StringValue)); err == nil {
		t.Error("expected the stream's end")
	}
	// A budget that is over is refused without running the handler.
	_, err = call1(withTags(within(t), wire.Tags{Budget: -1}), conn, "x")
	if info, _ := details(err); status.Code(err) != codes.DeadlineExceeded || info == nil {
		t.Errorf("%v", err)
	}
	if len(left) != 0 {
		t.Error("the handler ran")
	}
}

func TestClassifierDecidesWhatToBelieve(t *testing.T) {
	gate := newGate(t, admission.Config{})
	got := make(chan wire.Tags, 1)
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		tags := live.TagsFrom(ctx)
		got <- tags
		return req, nil
	}}, []Option{WithClassifier(func(_ context.Context, method string, claimed wire.Tags) wire.Tags {
		if method != echoMethod {
			t.Errorf("method %q", method)
		}
		return wire.Tags{Workflow: "edge", Priority: 100}
	})})
	conn := dial(t, s.addr)
	ctx := withTags(within(t), wire.Tags{Workflow: "vip", Class: work.Interactive, Credits: true, Demand: 4})
	if _, err := call1(ctx, conn, "x"); err != nil {
		t.Fatal(err)
	}
	want := wire.Tags{Workflow: "edge", Priority: 100, Credits: true, Demand: 4}
	if tags := await.Value(t, got, "what the server got"); tags != want {
		t.Errorf("%+v, expected %+v", tags, want)
	}
	if gate.Stats().Clients != 1 {
		t.Error("the classifier must not cost a client its credits")
	}
}

func TestTapIsChained(t *testing.T) {
	gate := newGate(t, admission.Config{})
	type key struct{}
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		if ctx.Value(key{}) == nil {
			return "", errors.New("the user's tap handle's context is lost")
		}
		return req, nil
	}}, []Option{WithTap(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if len(info.Header["deny"]) > 0 {
			return nil, status.Error(codes.PermissionDenied, "denied at the tap")
		}
		return context.WithValue(ctx, key{}, 1), nil
	})})
	conn := dial(t, s.addr)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Error(err)
	}
	if _, err := call1(metadata.AppendToOutgoingContext(within(t), "deny", "1"), conn, "x"); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	if st := gate.Stats(); st.Served[work.Done] != 1 || st.Running != 0 {
		t.Errorf("%+v", st)
	}
}

// A slow sender's time is not the server's queueing delay.
func TestSlowSenderIsNoQueueingDelay(t *testing.T) {
	const objective = 100 * time.Millisecond
	gate := newGate(t, admission.Config{Objective: objective})
	s := serve(t, gate, &echo{}, nil)
	conn := dial(t, s.addr)
	ctx := within(t)
	eventually(t, "a call that is served though its message came late", func() bool { // on a busy machine messages lie about
		// A unary call whose message comes long after its headers.
		ss, err := conn.NewStream(withTags(ctx, wire.Tags{Credits: true}), &grpc.StreamDesc{ClientStreams: true}, echoMethod)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the headers to have arrived", func() bool { _, err := call1(ctx, conn, "after them"); return err == nil })
		time.Sleep(2 * objective)
		if err := ss.SendMsg(wrapperspb.String("late")); err != nil {
			return false // it is refused
		}
		ss.CloseSend()
		out := new(wrapperspb.StringValue)
		return ss.RecvMsg(out) == nil && out.Value == "late"
	})
}

func TestStreamsHoldATicket(t *testing.T) {
	gate := newGate(t, fixed(2))
	release := make(chan struct{})
	e := &echo{chat: func(ss grpc.ServerStream) error {
		<-release
		return ss.SendMsg(wrapperspb.String("bye"))
	}}
	s := serve(t, gate, e, nil)
	conn, c := dialGated(t, s.addr, nil)
	var trailers []func() metadata.MD
	var streams []grpc.ClientStream
	for range 2 {
		ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, watchMethod)
		if err != nil {
			t.Fatal(err)
		}
		if err := ss.SendMsg(wrapperspb.String("")); err != nil {
			t.Fatal(err)
		}
		ss.CloseSend()
		trailers, streams = append(trailers, ss.Trailer), append(streams, ss)
	}
	eventually(t, "both run", func() bool { return gate.Stats().Running == 2 })
	close(release)
	for i, ss := range streams {
		if err := ss.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			t.Error(err)
		}
		if err := ss.RecvMsg(new(wrapperspb.StringValue)); err == nil {
			t.Error("expected the end")
		}
		if md := trailers[i]()[wire.MetadataKey]; i > 0 && len(md) != 1 {
			t.Errorf("stream %d: trailer %q, expected credits", i, md)
		}
	}
	eventually(t, "all returned", settled(c, conn, gate))
}
