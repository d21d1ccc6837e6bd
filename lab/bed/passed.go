package bed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/world"
)

// traceField is the header field in which a request says whose part it is (W3C Trace
// Context).
const traceField = "Traceparent"

// traceKey is the key under which a context has the trace of its request.
type traceKey struct{}

// passed returns a context with what an application with context propagation passes on to
// those that it calls: the trace, and what the request says of itself.
func passed(ctx context.Context, h http.Header) context.Context {
	if parts := strings.Split(h.Get(traceField), "-"); len(parts) == 4 && len(parts[1]) == 32 {
		ctx = context.WithValue(ctx, traceKey{}, parts[1])
	}
	if msg, err := wire.FromHeader(h.Get(wire.HeaderName)); err == nil && len(msg) > 0 {
		if tags, err := wire.ParseTags(msg); err == nil {
			ctx = live.WithTags(ctx, tags)
		}
	}
	return ctx
}

// span returns the traceparent of a call: another span of the same trace, or a trace that
// begins with the request of that number.
func span(ctx context.Context, id uint64) string {
	trace, ok := ctx.Value(traceKey{}).(string)
	if !ok {
		trace = fmt.Sprintf("%016x%016x", id, mix(id)|1)
	}
	return fmt.Sprintf("00-%s-%016x-01", trace, rand.Uint64()|1)
}

// answerSize is how many bytes the answer to a request has.
func answerSize(m *world.Method, id uint64) int {
	if m.Answer.Least == m.Answer.Most {
		return m.Answer.Most
	}
	return m.Answer.Least + rand.New(rand.NewPCG(id, answerStream)).IntN(m.Answer.Most-m.Answer.Least+1)
}

// answerStream tells the chance of sizes from that of steps.
const answerStream = 1 << 32
