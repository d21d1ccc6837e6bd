package http1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// sender sends the body of a request while the answer is read.
type sender struct {
	x     *exchange
	told  chan bool     // whether to send the body; nil: yes
	ended chan struct{} // closed when the body is read no more
	foul  atomic.Pointer[error]
	// complete is whether all was sent; after ended.
	complete bool
}

// chunk is memory through which a body is copied: room for the size, the bytes and the end of a chunk.
type chunk [chunkHead + chunkSize + 2]byte

const (
	chunkHead = 10 // a size of 32 bits in hex and the end of its line
	chunkSize = 32 << 10
)

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// tell says whether to send the body, unless that was said.
func (s *sender) tell(send bool) {
	if s.told != nil {
		select {
		case s.told <- send:
		default:
		}
	}
}

// run writes the header, if it has not been, and then the body.
func (s *sender) run(head []byte) {
	defer close(s.ended)
	cn, p := s.x.conn, &s.x.plan
	if p.body != nil {
		defer p.body.Close()
	}
	if head != nil {
		if _, err := cn.nc.Write(head); err != nil {
			s.lost()
			return
		}
	}
	if p.body != nil {
		if !s.awaited() {
			return
		}
		written, err := s.copy(p.body)
		switch {
		case err != nil && !written:
			s.lost()
			return
		case err != nil:
			s.foul.Store(&err)
			cn.close()
			return
		}
	}
	s.complete = true
	s.x.written()
}

// lost bounds the time for an answer to a request that could not be written.
func (s *sender) lost() { s.x.conn.deadline.at(time.Now().Add(lostWriter)) }

// awaited waits until the body may be sent, and reports whether it is to be.
func (s *sender) awaited() bool {
	if s.told == nil {
		return true
	}
	timer := time.NewTimer(s.x.conn.c.cfg.Continue)
	defer timer.Stop()
	select {
	case send := <-s.told:
		return send
	case <-timer.C:
		return true
	}
}

// copy sends the body. written is false if an error is that of a write, else it is the body's.
func (s *sender) copy(body io.Reader) (written bool, err error) {
	buf := chunks.Get().(*chunk)
	defer chunks.Put(buf)
	length, left := s.x.plan.length, s.x.plan.length
	for length < 0 || left > 0 {
		space := buf[chunkHead : chunkHead+chunkSize]
		if length >= 0 && left < chunkSize {
			space = space[:left]
		}
		n, err := body.Read(space)
		if n > 0 {
			left -= int64(n)
			if _, err := s.x.conn.nc.Write(s.frame(buf, n)); err != nil {
				return false, err
			}
		}
		switch {
		case err == io.EOF && length < 0:
			return s.finish()
		case err == io.EOF && left > 0:
			return true, fmt.Errorf("http1: a body of %d bytes, announced as %d", length-left, length)
		case err == io.EOF:
			return true, nil
		case err != nil:
			return true, err
		}
	}
	if err := ended(body); err == nil || err == io.EOF {
		return true, nil
	} else {
		return true, err
	}
}

// frame returns the n bytes in buf as they are written.
func (s *sender) frame(buf *chunk, n int) []byte {
	if s.x.plan.length >= 0 {
		return buf[chunkHead : chunkHead+n]
	}
	var size [chunkHead]byte
	text := append(strconv.AppendInt(size[:0], int64(n), 16), "\r\n"...)
	at := chunkHead - len(text)
	copy(buf[at:], text)
	copy(buf[chunkHead+n:], "\r\n")
	return buf[at : chunkHead+n+2]
}

// finish ends a body in chunks.
func (s *sender) finish() (written bool, err error) {
	end := buffer{append(make([]byte, 0, 64), "0\r\n"...)}
	for name, values := range s.x.r.Trailer {
		if name = http.CanonicalHeaderKey(name); !httpguts.ValidHeaderFieldName(name) || framing(name) {
			continue // the body is gone, so nobody can be told
		}
		for _, v := range values {
			if err := end.field(name, []string{oneLine.Replace(v)}); err != nil {
				return true, fmt.Errorf("%w: %w", ErrRequest, err)
			}
		}
	}
	end.b = append(end.b, "\r\n"...)
	_, err = s.x.conn.nc.Write(end.b)
	return err == nil, err
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// ended returns nil or io.EOF if a body has no more than was announced.
func ended(body io.Reader) error {
	var b [1]byte
	for {
		n, err := body.Read(b[:])
		switch {
		case n > 0:
			return errors.New("http1: a body is longer than announced")
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
