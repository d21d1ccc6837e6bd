package httpgate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// refusalBody is the longest body of a refusal that may be followed by a retry,
// in bytes: it is kept, in case there is none. Refusals of a Handler have a few
// hundred.
const refusalBody = 4096

// again decides whether r is sent again after the refusal that resp carries, and
// waits until it is time. It returns the request to send, or nil if resp is the
// answer, with its body as it was.
func (t *transport) again(r *http.Request, x *exchange, resp *http.Response) *http.Request {
	if !repeatable(r) || !keep(resp) {
		return nil
	}
	// The body has ended, so its credit is back: no wait holds one.
	shed := *x.shed
	shed.Pushback = pause(resp.Header, shed.Pushback)
	why := x.host.budget.Ask(r.Context(), shed)
	if t.onRetry != nil {
		t.onRetry(r, why)
	}
	if why != work.None || !live.Pause(r.Context(), shed.Pushback) {
		return nil
	}
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	out := new(http.Request)
	*out = *r
	out.Body = body
	return out
}

// repeatable reports whether a request can be sent twice.
func repeatable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// keep reads the body of a refusal into memory, and reports false if it is too
// long for that; it can be read all the same.
func keep(resp *http.Response) bool {
	if resp.Body == nil || resp.Body == http.NoBody {
		return true
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, refusalBody+1))
	if err == nil && len(text) <= refusalBody {
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(text))
		return true
	}
	rest := resp.Body
	resp.Body = &put{io.MultiReader(bytes.NewReader(text), failed{err}, rest), rest}
	return false
}

// put is a body of which something was read and put back.
type put struct {
	io.Reader
	io.Closer
}

// failed is what a body whose reading failed goes on with.
type failed struct{ err error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) {
	if f.err == nil || errors.Is(f.err, io.EOF) {
		return 0, io.EOF // on to the rest
	}
	return 0, f.err
}

// pause is how long to wait before another attempt: the exact pushback, or
// Retry-After if somebody on the way asked for more. It counts whole seconds, so
// up to the next one it says the same.
func pause(h http.Header, pushback time.Duration) time.Duration {
	v := h["Retry-After"]
	if len(v) != 1 {
		return pushback
	}
	var after time.Duration
	if n, err := strconv.ParseUint(v[0], 10, 31); err == nil {
		after = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(v[0]); err == nil {
		after = time.Until(at)
	}
	if after > max(pushback, 1)+time.Second {
		return after
	}
	return pushback
}

// succeeded reports whether an answer that is no refusal earns retries.
func succeeded(resp *http.Response) bool {
	if code := resp.StatusCode; code >= 500 || code == http.StatusTooManyRequests {
		return false
	}
	st := resp.Header["Grpc-Status"] // there only if the header is all
	return len(st) == 0 || st[0] == "0"
}
