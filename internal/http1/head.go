package http1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// plan is how a request is sent.
type plan struct {
	body    io.ReadCloser // nil: it has none
	length  int64         // of the body; negative: it is chunked
	head    int           // length of the header
	expects bool          // the server's word before the body
}

// buffer holds what is written at once.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 2<<10)} }}

// largestKept is the largest buffer that is used again.
const largestKept = 2 * atOnce

func (h *buffer) free() {
	if cap(h.b) <= largestKept {
		buffers.Put(h)
	}
}

// write writes the header of r, and returns how r is to be sent. An error says that r is none that can be.
func (h *buffer) write(r *http.Request) (plan, error) {
	h.b = h.b[:0]
	switch {
	case r.URL == nil || r.URL.Host == "":
		return plan{}, errors.New("no host in the request's URL")
	case r.Method != "" && !httpguts.ValidHeaderFieldName(r.Method), r.Method == http.MethodConnect:
		return plan{}, fmt.Errorf("invalid method %q", r.Method)
	}
	trailer, foul := trailers(r.Trailer) // before anything reads the body, at whose end they are written
	p, err := planOf(r)
	if err != nil {
		return p, err
	}
	if p.length < 0 && foul != nil {
		return p, foul
	}
	if err := h.start(r); err != nil {
		return p, err
	}
	if r.Close && !httpguts.HeaderValuesContainsToken(r.Header["Connection"], "close") {
		h.b = append(h.b, "Connection: close\r\n"...)
	}
	h.length(r, &p, trailer)
	for name, values := range r.Header {
		switch name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		if err := h.field(name, values); err != nil {
			return p, err
		}
	}
	h.b = append(h.b, "\r\n"...)
	p.head = len(h.b)
	p.expects = p.body != nil && r.ProtoAtLeast(1, 1) && httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
	return p, nil
}

// start writes what every request has.
func (h *buffer) start(r *http.Request) error {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	host, err := httpguts.PunycodeHostPort(host)
	if err != nil {
		return err
	}
	if !httpguts.ValidHostHeader(host) {
		host = "" // which is valid, and changes no other name into one
	}
	method, target := r.Method, r.URL.RequestURI()
	if method == "" {
		method = http.MethodGet
	}
	if !visible(target) {
		return errors.New("control character or blank in the request's URL")
	}
	h.b = append(h.b, method...)
	h.b = append(h.b, ' ')
	h.b = append(h.b, target...)
	h.b = append(h.b, " HTTP/1.1\r\nHost: "...)
	h.b = append(h.b, withoutZone(host)...)
	h.b = append(h.b, "\r\n"...)
	if agent := r.Header["User-Agent"]; len(agent) > 0 && agent[0] != "" {
		return h.field("User-Agent", agent[:1])
	}
	return nil
}

// length writes what says how long the body is, and the field that announces its trailers.
func (h *buffer) length(r *http.Request, p *plan, trailer string) {
	switch {
	case p.length < 0:
		h.b = append(h.b, "Transfer-Encoding: chunked\r\n"...)
		h.b = append(h.b, trailer...)
	case p.length > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		h.b = append(h.b, "Content-Length: "...)
		h.b = strconv.AppendInt(h.b, p.length, 10)
		h.b = append(h.b, "\r\n"...)
	}
}

// trailers returns the field that announces t, nothing if t is empty.
func trailers(t http.Header) (string, error) {
	if len(t) == 0 {
		return "", nil
	}
	var b strings.Builder
	sep := "Trailer: "
	for name, values := range t {
		if name = http.CanonicalHeaderKey(name); framing(name) || !httpguts.ValidHeaderFieldName(name) || !valid(values) {
			return "", fmt.Errorf("invalid trailer %q", name)
		}
		b.WriteString(sep)
		b.WriteString(name)
		sep = ","
	}
	b.WriteString("\r\n")
	return b.String(), nil
}

// framing reports whether a field says where a message ends, which none can after its body.
func framing(name string) bool {
	return name == "Transfer-Encoding" || name == "Trailer" || name == "Content-Length"
}

// field writes a field of each value. No value can end its line: what came from a client was checked when it was
// read, and what rules add by them, but this is where it counts.
func (h *buffer) field(name string, values []string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("invalid field name %q", name)
	}
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) {
			return fmt.Errorf("invalid value of the field %q", name)
		}
		h.b = append(h.b, name...)
		h.b = append(h.b, ": "...)
		h.b = append(h.b, textproto.TrimString(v)...)
		h.b = append(h.b, "\r\n"...)
	}
	return nil
}

// withoutZone takes the zone off an address of IPv6, which means nothing to another machine.
func withoutZone(host string) string {
	if len(host) == 0 || host[0] != '[' {
		return host
	}
	end := strings.LastIndexByte(host, ']')
	if end < 0 {
		return host
	}
	zone := strings.LastIndexByte(host[:end], '%')
	if zone < 0 {
		return host
	}
	return host[:zone] + host[end:]
}

// planOf says how the body of r is sent. One of unknown length that belongs to a method which seldom has one is
// first waited for: servers expect none there, not even an empty one in chunks.
func planOf(r *http.Request) (plan, error) {
	if r.Body == nil || r.Body == http.NoBody {
		if r.Body == nil && r.ContentLength != 0 {
			return plan{}, fmt.Errorf("a length of %d without a body", r.ContentLength)
		}
		return plan{}, nil
	}
	p := plan{body: r.Body, length: r.ContentLength}
	if p.length == 0 || len(r.TransferEncoding) > 0 {
		p.length = -1
	}
	if p.length < 0 && len(r.TransferEncoding) == 0 {
		switch r.Method {
		case "", "GET", "HEAD", "DELETE", "OPTIONS", "PROPFIND", "SEARCH":
			if p.body = probe(r.Body); p.body == nil {
				_ = r.Body.Close()
				p.length = 0
			}
		}
	}
	return p, nil
}

// probeFor is how long a body is waited for of which it is not known whether there is one, as in http.Transport.
const probeFor = 200 * time.Millisecond

// probe returns the body, or nil if it is empty.
func probe(body io.ReadCloser) io.ReadCloser {
	first := make(chan begun, 1)
	go func() {
		var b begun
		b.n, b.err = body.Read(b.p[:])
		first <- b
	}()
	timer := time.NewTimer(probeFor)
	defer timer.Stop()
	out := &probed{ReadCloser: body, first: first}
	select {
	case b := <-first:
		if b.n == 0 && b.err == io.EOF {
			return nil
		}
		first <- b
	case <-timer.C:
	}
	return out
}

// begun is the beginning of a body.
type begun struct {
	p   [1]byte
	n   int
	err error
}

// probed is a body of which the first byte is read elsewhere.
type probed struct {
	io.ReadCloser
	first chan begun // nil after it was taken
	err   error
}

// Read implements io.Reader.
func (b *probed) Read(p []byte) (int, error) {
	if b.first != nil && len(p) > 0 {
		first := <-b.first
		b.first, b.err = nil, first.err
		return copy(p, first.p[:first.n]), first.err
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// valid reports whether all values may be those of a field.
func valid(values []string) bool {
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) {
			return false
		}
	}
	return true
}

// visible reports whether s is without control characters and blanks, which would end the target of a request.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
