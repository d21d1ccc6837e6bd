package httpgate

import (
	"math"
	"net/http"
)

// Another has a request answered by another target: the server of its own target has seen
// nothing of it, as where no connection could be made. The handler returns without an
// answer, its slot is given back, and the request asks the gate of t for one. Another
// reports false, and then changes nothing, if the answer has begun or was refused, if
// most targets have had the request already, or if there is no gate. w is the handler's
// response writer or one around it. The body, if any was read, is not there again.
func Another(w http.ResponseWriter, t *Target, most int) bool {
	own := writerIn(w)
	if own == nil || own.answered() || own.hijacked || own.cut || int(own.before)+1 >= min(most, math.MaxUint8) || own.in.ticket.Cancelled() != nil {
		return false
	}
	own.another = t
	return true
}

// writerIn returns the writer of an admitted request that w is or goes around, nil if there
// is none.
func writerIn(w http.ResponseWriter) *writer {
	for w != nil {
		if own, ok := w.(*writer); ok {
			return own
		}
		around, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = around.Unwrap()
	}
	return nil
}
