package proxy

import (
	"bytes"
	"net/http"
	"sync/atomic"
)

// framing sees whether the header of a request of HTTP/1 says twice how long its body is: by Content-Length and by
// Transfer-Encoding. net/http takes the second and forgets the first. Whoever passed the request on may have done
// otherwise, and sees the end of the body, and so the next request, somewhere else. Such a connection has to end with the
// answer (RFC 9112 §6.1).
//
// It looks at the first word of each line that comes, of bodies as well, and sees a header only as lines up to an empty one:
// where the next requests are read before one has ended, it does not know whose a header is. So once one was framed twice,
// any later request in chunks, and any of HTTP/1.0, ends the connection: a body with such lines ends one for nothing.
type framing struct {
	twice atomic.Bool // both came, in one header or what looks like one

	length, encoding bool                           // since the last empty line
	word             [len("transfer-encoding")]byte // the line's beginning, in lower case
	n                int                            // of word; negative: the line began otherwise
}

// see takes what comes on the connection. It is called by one goroutine at a time.
func (f *framing) see(b []byte) {
	for len(b) > 0 {
		if f.n < 0 {
			end := bytes.IndexByte(b, '\n')
			if end < 0 {
				return
			}
			f.n, b = 0, b[end+1:]
			continue
		}
		switch c := b[0]; {
		case c == '\n':
			if f.n == 0 || f.n == 1 && f.word[0] == '\r'|0x20 {
				f.length, f.encoding = false, false
			}
			f.n = 0
		case c == ':':
			f.field(string(f.word[:f.n]))
			f.n = -1
		case f.n == len(f.word):
			f.n = -1
		default:
			f.word[f.n] = c | 0x20
			f.n++
		}
		b = b[1:]
	}
}

func (f *framing) field(name string) {
	switch name {
	case "content-length":
		f.length = true
	case "transfer-encoding":
		f.encoding = true
	default:
		return
	}
	if f.length && f.encoding {
		f.twice.Store(true)
	}
}

// lastAnswer makes the answer to a request the last one on its connection, whatever is put into its header.
type lastAnswer struct {
	http.ResponseWriter
	wrote bool
}

// lastIfTwice returns w, or what ends the connection after the answer to r if its body was framed twice. c may be nil.
func (c *placed) lastIfTwice(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	switch {
	case c == nil, r.ProtoMajor != 1, !c.framing.twice.Load() && !c.http2.Load(): // of what begins as HTTP/2 does and is not, nothing was seen
		return w
	case r.ProtoMinor > 0 && len(r.TransferEncoding) == 0: // net/http looks at it from HTTP/1.1 on
		return w
	}
	w.Header().Set("Connection", "close") // of an answer that nothing is written of
	return &lastAnswer{ResponseWriter: w}
}

// WriteHeader implements http.ResponseWriter.
func (w *lastAnswer) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.wrote = true
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *lastAnswer) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls.
func (w *lastAnswer) FlushError() error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *lastAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
