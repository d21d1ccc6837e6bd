package httpgate

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gathered is a request's body of which the first part, or all, is in memory.
type gathered struct {
	rest []byte        // of that part
	more io.ReadCloser // what follows; nil: nothing
	held atomic.Int64  // bytes of memory
	of   *memory
	by   uint64 // the sender
}

// free says that the memory of what was read is of no more use. Further calls do nothing.
func (g *gathered) free() { g.of.give(g.by, g.held.Swap(0)) }

// Read implements io.Reader.
func (g *gathered) Read(p []byte) (int, error) {
	if len(g.rest) == 0 && g.more != nil {
		return g.more.Read(p)
	}
	n := copy(p, g.rest)
	if g.rest = g.rest[n:]; len(g.rest) == 0 {
		g.free()
		if g.more == nil {
			return n, io.EOF
		}
		g.rest = nil // its memory is free
	}
	return n, nil
}

// Close implements io.Closer.
func (g *gathered) Close() error {
	if g.more != nil {
		return g.more.Close()
	}
	return nil
}

// gather reads the body of r, which came by a connection, or the first part of a long one, if its length is announced. It
// returns the body, nil if that is left where it is, whether all of it was read, and false if
// the request was answered because its body came too slowly or broke off. free must follow.
func (h *handler) gather(w http.ResponseWriter, r *http.Request, from *conn) (body *gathered, whole, ok bool) {
	size := min(r.ContentLength, int64(h.patience.Gather))
	if size <= 0 || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil {
		return nil, false, true
	}
	by := h.sentBy(r, from)
	if !h.gathering.take(by, size) {
		return nil, false, true
	}
	whole = size == r.ContentLength
	body = &gathered{of: &h.gathering, by: by}
	body.held.Store(size)
	part, err := h.read(w, r, int(size), whole)
	switch {
	case err == nil && whole:
		body.rest = part
		return body, true, true
	case err == nil:
		body.rest, body.more = part, r.Body
		return body, false, true
	}
	body.free()
	h.refuseBody(w, r, err)
	return nil, false, false
}

// scarce reports whether there is no memory for as much of a sender's body as would be read of it before its request asks for a slot;
// of one of unknown length, for what is awaited of any.
func (h *handler) scarce(by uint64, length int64) bool {
	return !h.gathering.has(by, max(min(length, int64(h.patience.Gather)), firstRoom))
}

// badBody returns what OnBadBody is told of the error of a read.
func badBody(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSlowBody
	}
	return errors.Join(ErrBrokenBody, err)
}

// refuseBody answers a request of which no body can come any more.
func (h *handler) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if h.badBody != nil {
		h.badBody(r, err)
	}
	code, title := http.StatusBadRequest, "The body of the request is cut off or malformed"
	if errors.Is(err, ErrSlowBody) {
		code, title = http.StatusRequestTimeout, "The body of the request arrived too slowly"
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	h.leaves(w, r)
	if isGRPC(r.Header) {
		WriteGRPCStatus(w, status.New(codes.Canceled, title))
		return
	}
	Problem(w, r, code, title)
}

// awaitRest bounds how long the server of HTTP/1 waits for the rest of the body of a request that was refused: it reads up to 256
// KiB of that, before the answer leaves, for as long as the client takes.
func (h *handler) awaitRest(w http.ResponseWriter, r *http.Request) {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if h.patience.Silence > 0 && r.ProtoMajor == 1 && r.ContentLength != 0 && (server == nil || server.ReadTimeout == 0) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.patience.Silence))
	}
}

// read reads as much of a body, to its end if that is all of it. It must come at the least rate.
func (h *handler) read(w http.ResponseWriter, r *http.Request, size int, whole bool) ([]byte, error) {
	control := http.NewResponseController(w)
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	timed := h.patience.Rate > 0 && (server == nil || server.ReadTimeout == 0)
	began := time.Now()
	most := size
	if whole {
		most++ // so that a read meets the end
	}
	buf := make([]byte, 0, min(most, 4<<10))
	for {
		if timed {
			due := h.patience.Grace + time.Duration(len(buf))*time.Second/time.Duration(h.patience.Rate)
			timed = control.SetReadDeadline(began.Add(due)) == nil
		}
		n, err := r.Body.Read(buf[len(buf):min(cap(buf), most)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) == size && (err == io.EOF || !whole && err == nil):
			if timed {
				_ = control.SetReadDeadline(time.Time{})
			}
			return buf, nil
		case err != nil:
			return nil, badBody(err)
		}
		if len(buf) == cap(buf) {
			more := make([]byte, len(buf), min(most, 4*len(buf)))
			copy(more, buf)
			buf = more
		}
	}
}
