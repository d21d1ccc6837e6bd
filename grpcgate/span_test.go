package grpcgate

import (
	"context"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/work"
)

// The span of a call says that it waited for a slot, or that the gate refused it.
func TestSpanSaysWhatTheGateDid(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	defer provider.Shutdown(context.Background())
	traced := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		ctx, span := provider.Tracer("test").Start(ctx, "call")
		defer span.End()
		return handle(ctx, req)
	}
	gate := newGate(t, fixed(1))
	ticket, err := gate.Enter(t.Context(), live.Request{})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(traced)}, ServerOptions(gate)...)...)
	service := &echo{handle: func(_ context.Context, said string) (string, error) { return said, nil }}
	server.RegisterService(service.desc(), service)
	l := listen(t)
	go server.Serve(l)
	defer server.Stop()
	conn := dial(t, l.Addr().String())
	go func() {
		for gate.Stats().Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		ticket.Leave(work.Done)
	}()
	if _, err := call1(within(t), conn, "waits"); err != nil {
		t.Fatal(err)
	}
	gate.Drain()
	if _, err := call1(within(t), conn, "refused"); err == nil {
		t.Fatal("a gate that drains answered")
	}
	eventually(t, "two spans", func() bool { return len(spans.Ended()) == 2 })
	var said []string
	for _, s := range spans.Ended() {
		for _, e := range s.Events() {
			said = append(said, e.Name)
		}
	}
	if want := []string{spanevent.SlotWait, spanevent.Refusal}; !slices.Equal(said, want) {
		t.Errorf("events %q, expected %q", said, want)
	}
}
