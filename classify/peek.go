package classify

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/http"

	"github.com/spillgate/spillgate/guard/etcd/keyrange"
)

// maxPeek is how much of a request's first message is looked at, in bytes. What lies
// behind is not seen, and a rule about it does not match.
const maxPeek = 64 << 10

// frameHeader is the length of what stands before each message of gRPC: whether it is
// compressed, and its length.
const frameHeader = 5

// Peek reads the beginning of the first message of req, if a rule wants to see it, and
// gives req a body that begins with it again. Stamp and HTTP know it then. It waits for
// the client to send, up to maxPeek bytes, so it belongs where waiting costs little; a
// failure to read is left to the next reader.
func (r *Rules) Peek(req *http.Request) {
	if !r.peeks || req.Body == nil || req.Body == http.NoBody || !keyrange.Told(req.URL.Path) || !isGRPC(req.Header) {
		return
	}
	b := &peeked{ReadCloser: req.Body}
	b.err = b.read(req.Header)
	req.Body = b
}

// peeked is a body whose beginning was read already.
type peeked struct {
	io.ReadCloser
	message []byte // the first, as it was before it was compressed
	again   []byte // to be read again
	err     error  // after that; nil: the rest follows
}

// read fills the beginning and returns what kept it from being whole.
func (b *peeked) read(h http.Header) error {
	head := make([]byte, frameHeader, 512)
	n, err := io.ReadFull(b.ReadCloser, head)
	b.again = head[:n]
	if err != nil {
		return ended(err)
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	rest := bytes.NewBuffer(head)
	_, err = io.CopyN(rest, b.ReadCloser, min(length, maxPeek))
	b.again = rest.Bytes()
	b.message = b.again[frameHeader:]
	if head[0] != 0 {
		b.message = inflate(b.message, h)
	}
	return ended(err)
}

// inflate returns the beginning of a message that was compressed; nil if it cannot be
// read.
func inflate(message []byte, h http.Header) []byte {
	if by := h["Grpc-Encoding"]; len(by) != 1 || by[0] != "gzip" {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(message))
	if err != nil {
		return nil
	}
	out, _ := io.ReadAll(io.LimitReader(z, maxPeek)) // of what is cut off, what there is
	return out
}

// ended leaves the end of a body to who reads on.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return io.EOF
	}
	return err
}

// Read implements io.Reader.
func (b *peeked) Read(p []byte) (int, error) {
	if len(b.again) > 0 {
		n := copy(p, b.again)
		b.again = b.again[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}
