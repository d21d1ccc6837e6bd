package spanevent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/work"
)

// recorder is a tracer whose spans record.
func recorder(t *testing.T) (trace.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return provider.Tracer("test"), spans
}

// said is what the events of the only span say, times left out.
func said(t *testing.T, spans *tracetest.SpanRecorder) (all []string) {
	t.Helper()
	if n := len(spans.Ended()); n != 1 {
		t.Fatalf("%d spans, expected 1", n)
	}
	for _, e := range spans.Ended()[0].Events() {
		text := e.Name
		for _, a := range e.Attributes {
			switch a.Key {
			case "spillgate.reason":
				text += " " + a.Value.AsString()
			case "spillgate.wait", "spillgate.retry_after":
				if a.Value.AsFloat64() <= 0 {
					t.Errorf("%s: %s is %v, expected a time", e.Name, a.Key, a.Value.AsFloat64())
				}
			}
		}
		all = append(all, text)
	}
	return all
}

// What cannot be recorded costs no memory.
func TestWithoutASpanNothingIsAllocated(t *testing.T) {
	err := error(&live.Refusal{Reason: work.Delay})
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, 1)
	if n := testing.AllocsPerRun(100, func() {
		spanevent.Waited(ctx, spanevent.SlotWait, time.Second)
		spanevent.Refused(ctx, err)
	}); n != 0 {
		t.Errorf("%v allocations, expected none", n)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("call: %w", &live.Refusal{ID: 7, Reason: work.Delay, Pushback: time.Second}), "[spillgate.refused delay]"},
		{&live.Refusal{Reason: work.Expired, Pushback: -1}, "[spillgate.refused expired]"},
		{errors.New("something else"), "[]"},
	} {
		tracer, spans := recorder(t)
		ctx, span := tracer.Start(t.Context(), "call")
		spanevent.Refused(ctx, c.err)
		spanevent.Waited(ctx, spanevent.SlotWait, 0) // did not wait
		span.End()
		if got := fmt.Sprint(said(t, spans)); got != c.want {
			t.Errorf("%v: %s, expected %s", c.err, got, c.want)
		}
	}
}

// oneSlot is a gate whose slot is taken until free is called.
func oneSlot(t *testing.T) (gate *live.Gate, free func()) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Minute, Slots: slots.Config{Min: 1, Max: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	ticket, err := gate.Enter(t.Context(), live.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return gate, func() { ticket.Leave(work.Done) }
}

// freeOnce frees the slot when a request waits at the gate.
func freeOnce(gate *live.Gate, free func()) {
	for gate.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	free()
}

// The span that a middleware around the gate began says that its request waited, or was refused.
func TestSpanOfAnHTTPRequest(t *testing.T) {
	for _, drained := range []bool{false, true} {
		tracer, spans := recorder(t)
		gate, free := oneSlot(t)
		gated := httpgate.Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, span := tracer.Start(r.Context(), "request")
			defer span.End()
			gated.ServeHTTP(w, r.WithContext(ctx))
		}))
		want := "[spillgate.slot_wait]"
		if drained {
			free()
			gate.Drain()
			want = "[spillgate.refused draining]"
		} else {
			go freeOnce(gate, free)
		}
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		server.Close()
		if got := fmt.Sprint(said(t, spans)); got != want {
			t.Errorf("drained %v: %s, expected %s", drained, got, want)
		}
	}
}
