package httpgate

import (
	"errors"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// End is what became of a request at the gate of one target.
type End struct {
	// Target is where it was.
	Target *Target
	// Admitted says that the handler ran. Reason is why it did not, or in mode monitor why
	// it would not have, or work.Culprit if the request was cancelled while it ran;
	// work.None of others.
	Admitted bool
	Reason   work.Reason
	// Refusal is what the target's gate explains a refusal by (spillgate.Gate.Explain), 0 if the
	// request was not refused on its way in.
	Refusal live.RefusalID
	// Waited is the time to the decision, Service that from then to the end of the handler.
	Waited, Service time.Duration
}

// OnEnd asks, for each request that asks a gate for a slot, what is to be told what became
// of it there; nil is nothing. It is told on the request's goroutine, after the answer was
// written, and twice of a request that went on to Another target. Exempt requests are not
// asked for. Neither function may block.
func OnEnd(ask func(*http.Request) (tell func(End))) Option {
	return func(o *options) { o.onEnd = ask }
}

// told returns what is to be told of the end of r, and when r came if that is anything.
func (h *handler) told(r *http.Request) (tell func(End), arrived mono.Time) {
	if h.onEnd == nil {
		return nil, 0
	}
	if tell = h.onEnd(r); tell != nil {
		arrived = live.Now()
	}
	return tell, arrived
}

// refused is the end of a request that the gate refused with err.
func (w *writer) refused(err error, arrived mono.Time) End {
	out := End{Target: w.target, Reason: work.Canceled, Waited: live.Now().Sub(arrived)}
	var refusal *live.Refusal
	if errors.As(err, &refusal) {
		out.Reason, out.Refusal = refusal.Reason, refusal.ID
	}
	return out
}

// ended is the end of a request whose handler ran.
func (w *writer) ended() End {
	out := End{Target: w.target, Admitted: true, Reason: w.in.ticket.Would(), Waited: w.in.ticket.Queued(), Service: live.Now().Sub(w.in.ticket.Began())}
	if refusal := w.seat.refused(); refusal != nil {
		out.Admitted, out.Reason, out.Refusal = false, refusal.Reason, refusal.ID
	} else if w.cut {
		out.Reason = work.Culprit
	}
	return out
}
