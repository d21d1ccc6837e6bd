package httpgate

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/spanevent"
)

// The caller's span says that its request waited for a credit and was not sent.
func TestSpanOfARequestThatIsNotSent(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	defer provider.Shutdown(context.Background())
	gate := newGate(t, oneSlot(), nil)
	leave := make(chan struct{})
	s := serve(t, Handler(gate, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave })))
	rt := Transport(base(t, 1), Wallet(credit.WalletConfig{MaxWait: 20 * time.Millisecond}))
	defer rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	var inside sync.WaitGroup
	defer inside.Wait()
	defer close(leave)
	said := func() (all []string) {
		for _, span := range spans.Ended() {
			for _, e := range span.Events() {
				all = append(all, e.Name)
			}
		}
		return all
	}
	for range 64 {
		inside.Go(func() {
			r, _ := http.NewRequest(http.MethodGet, s.url, nil)
			ctx, span := provider.Tracer("test").Start(context.Background(), "request")
			defer span.End()
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if resp, err := rt.RoundTrip(r.WithContext(ctx)); err == nil {
				resp.Body.Close()
			}
		})
	}
	eventually(t, "a request that was not sent", func() bool {
		all := said()
		return slices.Contains(all, spanevent.CreditWait) && slices.Contains(all, spanevent.Refusal)
	})
}
