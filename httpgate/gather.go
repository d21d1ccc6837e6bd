package httpgate

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostGathered is how many bytes of bodies a handler gathers at once. Requests beyond that
// ask for a slot first, as those with longer bodies do.
const mostGathered = 64 << 20

// gathered is a request's body in memory.
type gathered struct{ rest []byte }

// Read implements io.Reader.
func (g *gathered) Read(p []byte) (int, error) {
	n := copy(p, g.rest)
	if g.rest = g.rest[n:]; len(g.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (g *gathered) Close() error { return nil }

// gather reads the body of r, if it is short and its length announced. It returns the body,
// nil if that is left where it is, and false if the request was answered because its body
// came too slowly or broke off.
func (h *handler) gather(w http.ResponseWriter, r *http.Request) (body io.ReadCloser, ok bool) {
	size := r.ContentLength
	if size <= 0 || size > int64(h.patience.Gather) || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil {
		return nil, true
	}
	defer h.gathering.Add(-size)
	if h.gathering.Add(size) > mostGathered {
		return nil, true
	}
	all, err := h.read(w, r, int(size))
	if err == nil {
		return &gathered{all}, true
	}
	if h.badBody != nil {
		h.badBody(r, err)
	}
	code, title := http.StatusBadRequest, "The body of the request is cut off or malformed"
	if errors.Is(err, ErrSlowBody) {
		code, title = http.StatusRequestTimeout, "The body of the request arrived too slowly"
	}
	if isGRPC(r.Header) {
		WriteGRPCStatus(w, status.New(codes.Canceled, title))
		return nil, false
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	Problem(w, r, code, title)
	return nil, false
}

// read reads a body of this size to its end, which must come at the least rate.
func (h *handler) read(w http.ResponseWriter, r *http.Request, size int) ([]byte, error) {
	control := http.NewResponseController(w)
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	timed := h.patience.Rate > 0 && (server == nil || server.ReadTimeout == 0)
	began := time.Now()
	buf := make([]byte, 0, min(size+1, 4<<10)) // one more, so that a read meets the end
	for {
		if timed {
			due := h.patience.Grace + time.Duration(len(buf))*time.Second/time.Duration(h.patience.Rate)
			timed = control.SetReadDeadline(began.Add(due)) == nil
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF && len(buf) == size:
			if timed {
				_ = control.SetReadDeadline(time.Time{})
			}
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, ErrSlowBody
		case err != nil:
			return nil, errors.Join(ErrBrokenBody, err)
		}
		if len(buf) == cap(buf) {
			more := make([]byte, len(buf), min(size+1, 4*len(buf)))
			copy(more, buf)
			buf = more
		}
	}
}
