package livedoor

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/dagor"
	"github.com/spillgate/spillgate/internal/baseline/fifo"
	"github.com/spillgate/spillgate/internal/baseline/none"
	"github.com/spillgate/spillgate/internal/baseline/protego"
	"github.com/spillgate/spillgate/internal/baseline/seda"
	"github.com/spillgate/spillgate/internal/baseline/semaphore"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const method = "/test.Echo/Do"

// start serves one method, whose handler is handle, behind door on loopback and
// returns its address.
func start(t *testing.T, door baseline.Door, handle func(context.Context) error) (addr string, s *Server) {
	t.Helper()
	s = NewServer(door)
	server := grpc.NewServer(s.Options()...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Do",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
				return new(emptypb.Empty), handle(ctx)
			})
		},
	}}}, struct{}{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
		s.Close()
	})
	return l.Addr().String(), s
}

func dial(t *testing.T, addr string, sender baseline.Sender) func(context.Context) error {
	t.Helper()
	c := NewClient(sender)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), c.Option())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		c.Close()
	})
	return func(ctx context.Context) error {
		return conn.Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty))
	}
}

// try returns v; a mistake in a test's own configuration is a panic.
func try[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Every pair of policies carries many concurrent calls over real connections;
// each call ends, every slot is given back.
func TestEveryPolicyCarriesTraffic(t *testing.T) {
	wallet := func() baseline.Sender { return try(baseline.NewWallet(credit.WalletConfig{})) }
	for name, p := range map[string]struct {
		door   baseline.Door
		sender func() baseline.Sender
	}{
		"none":      {none.Door{}, func() baseline.Sender { return none.Sender{} }},
		"fifo":      {newFIFO(4), func() baseline.Sender { return none.Sender{} }},
		"spillgate": {newGate(), wallet},
		"protego":   {newProtego(), wallet},
		"dagor":     {newDAGOR(), func() baseline.Sender { return dagor.NewSender(1) }},
		"seda": {none.Door{}, func() baseline.Sender {
			return try(seda.New(seda.Config{Target: time.Second, MinRate: 1000, MaxWait: time.Second, QueueLimit: 100}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var running, served atomic.Int64
			addr, s := start(t, p.door, func(context.Context) error {
				running.Add(1)
				defer running.Add(-1)
				served.Add(1)
				return nil
			})
			var wg sync.WaitGroup
			var ok, refused atomic.Int64
			for range 4 {
				call := dial(t, addr, p.sender())
				for range 4 {
					wg.Go(func() {
						for range 25 {
							ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
							err := call(ctx)
							cancel()
							switch status.Code(err) {
							case codes.OK:
								ok.Add(1)
							case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
								refused.Add(1)
							default:
								t.Errorf("call: %v", err)
							}
						}
					})
				}
			}
			wg.Wait()
			if ok.Load() != served.Load() || ok.Load()+refused.Load() != 400 || ok.Load() == 0 {
				t.Errorf("%d answered, %d refused, %d handled; want 400 calls, and each handled one answered", ok.Load(), refused.Load(), served.Load())
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if r, is := p.door.(interface{ Running() int }); is && r.Running() != 0 {
				t.Errorf("%d still running, want 0", r.Running())
			}
		})
	}
}

func newFIFO(slots int) baseline.Door {
	return try(fifo.New(fifo.Config{Slots: slots}))
}

func newGate() baseline.Door {
	return try(baseline.NewGate(admission.Config{Objective: time.Second}))
}

func newProtego() baseline.Door {
	return try(protego.New(protego.Config{Slots: 4, Budget: time.Second}))
}

func newDAGOR() baseline.Door {
	return try(dagor.New(dagor.Config{Slots: 4, Law: dagor.Stepwise, Threshold: time.Second, Monitor: time.Millisecond, Window: 10 * time.Millisecond}))
}

// A call whose turn does not come is taken out when its caller gives up; the slot
// goes to the next; a panic gives it back as well.
func TestGivingUpAndPanickingFreeTheDoor(t *testing.T) {
	d := try(semaphore.New(semaphore.Config{Limit: 1, Queue: 10}))
	entered, let := make(chan struct{}, 10), make(chan struct{})
	var mode atomic.Int32
	recovered := func(_ context.Context) (err error) {
		entered <- struct{}{}
		<-let
		return nil
	}
	addr, s := start(t, d, func(ctx context.Context) error {
		if mode.Load() == 1 {
			return status.Error(codes.Internal, "broken")
		}
		return recovered(ctx)
	})
	call := dial(t, addr, none.Sender{})
	first := make(chan error, 1)
	go func() { first <- call(context.Background()) }()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() { second <- call(ctx) }()
	waitFor(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return d.Waiting() == 1 })
	cancel()
	if err := <-second; status.Code(err) != codes.Canceled {
		t.Errorf("the one who gave up got %v, want canceled", err)
	}
	waitFor(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return d.Waiting() == 0 })
	close(let)
	if err := <-first; err != nil {
		t.Errorf("the first call: %v", err)
	}
	mode.Store(1)
	if err := call(context.Background()); status.Code(err) != codes.Internal {
		t.Errorf("a broken handler: %v, want its own error", err)
	}
	waitFor(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return d.Running() == 0 })
}

// The handler's panic is the server's to handle; the ticket is returned.
func TestPanicReturnsTheTicket(t *testing.T) {
	d := try(semaphore.New(semaphore.Config{Limit: 1}))
	s := NewServer(d)
	defer s.Close()
	func() {
		defer func() { _ = recover() }()
		_, _ = s.unary(context.Background(), nil, nil, func(context.Context, any) (any, error) { panic("handler") })
	}()
	if d.Running() != 0 {
		t.Errorf("%d running after a panic, want 0", d.Running())
	}
}

// The level rides on the refusal, and the client's next call of that priority is
// not sent.
func TestLevelReachesTheClient(t *testing.T) {
	var handled atomic.Int64
	addr, _ := start(t, newDAGOR(), func(context.Context) error { handled.Add(1); return nil })
	sender := dagor.NewSender(5)
	sender.OnReply(0, nil, 0, baseline.Feedback{Level: int(work.MaxPriority)}) // it sends everything
	call := dial(t, addr, sender)
	ctx := WithPriority(context.Background(), 100) // the server's level is 32
	if err := call(ctx); status.Code(err) != codes.Unavailable {
		t.Errorf("first: %v, want refused by the server", err)
	}
	if err := call(ctx); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("second: %v, want not sent", err)
	}
	if err := call(WithPriority(context.Background(), 3)); err != nil {
		t.Errorf("an important call: %v", err)
	}
	if handled.Load() != 1 {
		t.Errorf("%d handled, want 1", handled.Load())
	}
}

// A server that dies leaves no request waiting and no credit taken.
func TestLostRepliesGiveCreditsBack(t *testing.T) {
	entered := make(chan struct{}, 8)
	stop := make(chan struct{})
	s := NewServer(newGate())
	server := grpc.NewServer(s.Options()...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Do",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
				entered <- struct{}{}
				<-stop
				return in, nil
			})
		},
	}}}, struct{}{})
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	wallet := try(baseline.NewWallet(credit.WalletConfig{}))
	call := dial(t, l.Addr().String(), wallet)
	errs := make(chan error, 3)
	for range 3 {
		go func() { errs <- call(context.Background()) }()
	}
	for range 3 {
		<-entered
	}
	killed := make(chan struct{})
	go func() { defer close(killed); server.Stop() }() // cuts the connections, then waits for handlers
	for range 3 {
		if err := <-errs; err == nil {
			t.Error("a call to a server that died succeeded")
		}
	}
	close(stop)
	<-killed
	<-served
	s.Close()
	if n := wallet.Window().Outstanding(); n != 0 {
		t.Errorf("%d credits are still taken, want 0", n)
	}
}

func TestMalformedMetadataIsIgnored(t *testing.T) {
	for _, s := range []string{"", "\x80", "\x01\x02\x03", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "\x80\x01\x00"} {
		if tags, err := decodeTags(s); err == nil {
			t.Errorf("%q was read as %+v", s, tags)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(tags{3, 70000}.encode())
	f.Add(encodeFeedback(baseline.Feedback{Reason: work.Delay, Level: 127, HasGrant: true,
		Grant: wire.Grant{Epoch: 1 << 31, Seq: 9, Window: 64, Revive: time.Second}}))
	f.Add("\x00\x00\x00")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := decodeTags(s); err == nil {
			if again, err := decodeTags(v.encode()); err != nil || again != v {
				t.Errorf("%+v came back as %+v, %v", v, again, err)
			}
			if v.priority > work.MaxPriority || v.demand < 0 || v.demand > credit.WindowLimit {
				t.Errorf("%+v is out of range", v)
			}
		}
		if v, err := decodeFeedback(s); err == nil {
			if again, err := decodeFeedback(encodeFeedback(v)); err != nil || again != v {
				t.Errorf("%+v came back as %+v, %v", v, again, err)
			}
		}
	})
}

func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about within ten seconds")
		}
	}
}
