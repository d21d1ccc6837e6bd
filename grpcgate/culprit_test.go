package grpcgate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/tracer"
)

// store is a service with two methods: Read is short, Report is what the test makes of
// it. Both need the same lock.
type store struct {
	gate    *live.Gate
	lock    *tracer.Mutex
	report  func(ctx context.Context) error
	began   atomic.Int64 // reports
	reads   atomic.Int64 // that were answered well
	paused  atomic.Bool  // nobody reads
	notices chan live.CulpritNotice
	client  *grpc.ClientConn
}

const (
	readMethod   = "/test.Store/Read"
	reportMethod = "/test.Store/Report"
)

func (s *store) read(ctx context.Context) error {
	if err := s.lock.Lock(ctx); err != nil {
		return err
	}
	defer s.lock.Unlock(ctx)
	time.Sleep(time.Millisecond)
	return nil
}

func (s *store) desc() *grpc.ServiceDesc {
	method := func(name, full string, do func(context.Context) error) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, dec func(any) error, mw grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := dec(in); err != nil {
				return nil, err
			}
			return mw(ctx, in, &grpc.UnaryServerInfo{FullMethod: full}, func(ctx context.Context, _ any) (any, error) {
				return wrapperspb.String("done"), do(ctx)
			})
		}}
	}
	return &grpc.ServiceDesc{ServiceName: "test.Store", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		method("Read", readMethod, s.read),
		method("Report", reportMethod, func(ctx context.Context) error {
			s.began.Add(1)
			return s.report(ctx)
		}),
	}}
}

// newStore serves a store and reads from it until the test ends.
func newStore(t *testing.T, mode culprit.Mode, cfg admission.Config, report func(ctx context.Context, s *store) error, opts ...Option) *store {
	t.Helper()
	s := &store{notices: make(chan live.CulpritNotice, 1024)}
	s.report = func(ctx context.Context) error { return report(ctx, s) }
	cfg.Objective = 100 * time.Millisecond
	var err error
	s.gate, err = live.NewGate(live.GateConfig{Config: cfg, Culprit: live.CulpritConfig{Mode: mode, Notify: func(n live.CulpritNotice) {
		select {
		case s.notices <- n:
		default:
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := tracer.Of(s.gate, tracer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.lock = tr.NewMutex("store")
	t.Cleanup(func() {
		s.gate.Close()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	server := grpc.NewServer(ServerOptions(s.gate, opts...)...)
	server.RegisterService(s.desc(), struct{}{})
	lis := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(server, lis)
	}()
	t.Cleanup(func() {
		server.Stop()
		await.Value(t, done, "the server to stop")
	})
	s.client, err = grpc.NewClient(lis.Addr().String(), append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.client.Close() })
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if !s.paused.Load() && s.call(ctx, readMethod) == nil {
					s.reads.Add(1)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		await.All(t, &readers, "the clients to end")
	})
	s.read100(t, "before the culprit")
	return s
}

func (s *store) call(ctx context.Context, method string) error {
	return s.client.Invoke(ctx, method, wrapperspb.String(""), new(wrapperspb.StringValue))
}

// ask makes a call, again if the client had no credit for it in time, as on a busy machine.
func (s *store) ask(ctx context.Context, method string) error {
	for {
		if err := s.call(ctx, method); status.Code(err) != codes.ResourceExhausted || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// seize makes calls of Report until one was let in, as a gate on a busy machine refuses
// some, and returns its error.
func (s *store) seize(ctx context.Context) error {
	before := s.began.Load()
	for {
		if err := s.call(ctx, reportMethod); s.began.Load() > before || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// read100 waits until a hundred reads have been answered.
func (s *store) read100(t *testing.T, when string) {
	t.Helper()
	want := s.reads.Load() + 100
	eventually(t, "a hundred reads "+when, func() bool { return s.reads.Load() >= want })
}

// told waits for a notice.
func (s *store) told(t *testing.T, what string, ok func(n live.CulpritNotice) bool) live.CulpritNotice {
	t.Helper()
	over := time.After(patience)
	for {
		select {
		case n := <-s.notices:
			if ok(n) {
				return n
			}
		case <-over:
			t.Fatalf("no notice of %s in %v; state %+v", what, patience, s.gate.Culprits())
		}
	}
}

// hold has a handler seize the lock until its context ends.
func hold(ctx context.Context, s *store) error {
	if err := s.lock.Lock(ctx); err != nil {
		return err
	}
	defer s.lock.Unlock(ctx)
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestTheHolderOfALockIsCancelled: one call holds the lock that all need. It is named and
// cancelled, the others go on, and its client learns how to send it again: once.
func TestTheHolderOfALockIsCancelled(t *testing.T) {
	var calls atomic.Int64
	causes := make(chan error, 1)
	s := newStore(t, culprit.Enforce, admission.Config{}, func(ctx context.Context, s *store) error {
		if calls.Add(1) == 1 {
			err := hold(ctx, s)
			causes <- err
			return err
		}
		if err := s.lock.Lock(ctx); err != nil { // again, and it takes its time
			return err
		}
		defer s.lock.Unlock(ctx)
		s.paused.Store(false)
		select {
		case <-time.After(700 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := s.seize(ctx)
	t.Logf("cancelled after %v: %v", time.Since(began).Round(time.Millisecond), err)
	if cause := await.Value(t, causes, "the cause of the end"); !errors.Is(cause, tracer.ErrCancelled) {
		t.Fatalf("the cause is %v, expected %v", cause, tracer.ErrCancelled)
	}
	st, _ := status.FromError(err)
	if st.Code() != codes.Aborted {
		t.Fatalf("the client sees %v, expected ABORTED", err)
	}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if info.GetReason() != "CULPRIT" || info.GetDomain() != "spillgate" || retry.GetRetryDelay().AsDuration() <= 0 {
		t.Fatalf("details %v, %v; expected the reason CULPRIT and a delay", info, retry)
	}
	s.read100(t, "after the cancel")
	if got := s.gate.Stats().Served[work.Cancelled]; got != 1 {
		t.Errorf("%d requests were counted as cancelled, expected 1", got)
	}

	// Its kind may not begin again, but for the one that shows the token.
	if err := s.ask(ctx, reportMethod); status.Code(err) != codes.Unavailable {
		t.Errorf("a call of the same kind: %v, expected UNAVAILABLE", err)
	}
	again, after, ok := Resend(ctx, err)
	if !ok || after <= 0 {
		t.Fatalf("Resend of %v: %v, %v", err, after, ok)
	}
	// The token counts once the server has been well for a while, which with readers a busy
	// machine may never be.
	s.paused.Store(true)
	err = s.ask(again, reportMethod)
	for ; status.Code(err) == codes.Unavailable && ctx.Err() == nil; err = s.ask(again, reportMethod) {
		time.Sleep(after / 4)
	}
	if err != nil {
		t.Fatalf("the call with the token: %v, expected an answer", err)
	}
	if got := calls.Load(); got != 2 {
		t.Errorf("the handler ran %d times, expected twice", got)
	}
	if err := s.ask(again, reportMethod); status.Code(err) != codes.Unavailable {
		t.Errorf("the token a second time: %v, expected UNAVAILABLE", err)
	}
	s.read100(t, "at the end")
}

// TestMonitorOnlyReports: the same call is named, and goes on.
func TestMonitorOnlyReports(t *testing.T) {
	release := make(chan struct{})
	s := newStore(t, culprit.Monitor, admission.Config{}, func(ctx context.Context, s *store) error {
		if err := s.lock.Lock(ctx); err != nil {
			return err
		}
		defer s.lock.Unlock(ctx)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	done := make(chan error, 1)
	go func() { done <- s.seize(context.Background()) }()
	n := s.told(t, "a culprit", func(n live.CulpritNotice) bool { return n.Step != culprit.NoStep })
	if !n.Would || n.Kind != reportMethod || n.Resource != "store" {
		t.Errorf("told %+v, expected that %s would have been cancelled for the store", n, reportMethod)
	}
	close(release)
	if err := await.Value(t, done, "the request to end"); err != nil {
		t.Errorf("the culprit: %v, expected an answer", err)
	}
	if c := s.gate.Culprits(); c.Cancels != 0 || c.Would == 0 || c.Limits != 0 {
		t.Errorf("%+v, expected that one would have been cancelled", c)
	}
}

// TestWhoDoesNotListenIsNamed: a handler that ignores its context keeps the lock, and
// there is nothing harsher to do.
func TestWhoDoesNotListenIsNamed(t *testing.T) {
	release := make(chan struct{})
	s := newStore(t, culprit.Enforce, admission.Config{}, func(ctx context.Context, s *store) error {
		if err := s.lock.Lock(ctx); err != nil {
			return err
		}
		defer s.lock.Unlock(ctx)
		<-release
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- s.seize(context.Background()) }()
	s.told(t, "a cancel", func(n live.CulpritNotice) bool { return n.Step == culprit.Statement && !n.Would })
	n := s.told(t, "a culprit that cannot be cancelled", func(n live.CulpritNotice) bool { return n.State == culprit.Named && n.Why == culprit.Fixed })
	if n.Kind != reportMethod {
		t.Errorf("told %+v, expected the kind %s", n, reportMethod)
	}
	close(release)
	if err := await.Value(t, done, "the request to end"); err != nil {
		t.Errorf("the culprit: %v, expected the answer that it made all the same", err)
	}
	if c := s.gate.Culprits(); c.Cancels != 1 {
		t.Errorf("%+v, expected one cancel", c)
	}
	s.read100(t, "at the end")
}

// TestWhatIsNeverCancelledIsNamed: a call whose content says so keeps its context, and its kind is kept out.
func TestWhatIsNeverCancelledIsNamed(t *testing.T) {
	release := make(chan struct{})
	s := newStore(t, culprit.Enforce, admission.Config{}, func(ctx context.Context, s *store) error {
		if err := s.lock.Lock(ctx); err != nil {
			return err
		}
		defer s.lock.Unlock(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-release:
			return nil
		}
	}, WithContent(func(method string, _ any) Content { return Content{NoCancel: method == reportMethod} }))
	done := make(chan error, 1)
	go func() { done <- s.seize(context.Background()) }()
	n := s.told(t, "a culprit that cannot be cancelled", func(n live.CulpritNotice) bool { return n.State == culprit.Named && n.Why == culprit.Fixed })
	if n.Kind != reportMethod {
		t.Errorf("told %+v, expected the kind %s", n, reportMethod)
	}
	eventually(t, "the kind to be kept out", func() bool { return status.Code(s.call(context.Background(), reportMethod)) == codes.Unavailable })
	close(release)
	if err := await.Value(t, done, "the request to end"); err != nil {
		t.Errorf("the culprit: %v, expected its answer", err)
	}
	if c := s.gate.Culprits(); c.Cancels != 0 {
		t.Errorf("%+v, expected no cancel", c)
	}
}

// TestWhoHoldsTheSlotsIsNamed: handlers without any tracer call hold all slots. They are
// found through the slots.
func TestWhoHoldsTheSlotsIsNamed(t *testing.T) {
	s := newStore(t, culprit.Enforce, fixed(2), func(ctx context.Context, s *store) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	errs := make(chan error, 2)
	for range 2 { // each begins itself: one that is refused would take the other's beginning for its own
		before := s.began.Load()
		go func() { errs <- s.seize(ctx) }()
		eventually(t, "a holder of a slot", func() bool { return s.began.Load() > before })
	}
	err := await.Value(t, errs, "a request to end")
	t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
	if code := status.Code(err); code != codes.Aborted {
		t.Errorf("a holder of a slot: %v, expected ABORTED", err)
	}
	s.read100(t, "at the end") // one slot is enough for these
	cancel()
	await.Value(t, errs, "a request to end")
}
