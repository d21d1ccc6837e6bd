package fastrpc

import (
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/spillgate/spillgate/broker/stamp"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// leastInbox is the buffer of a connection that is quiet, in bytes, and mostInbox that of
	// one that always has more. A longer frame has a buffer of its own for as long as it lasts.
	leastInbox = 4 << 10
	mostInbox  = 64 << 10
	// oldest is how far back a stamp of the kernel is believed. Clocks are set at times.
	oldest = time.Second
)

// inbox cuts what a connection brings into frames. One goroutine reads it.
type inbox struct {
	conn  net.Conn
	limit int    // the longest frame, in bytes
	idle  func() // called before a read, which may take long
	buf   []byte
	r, w  int
	full  bool // the last read took all that there was room for

	// behind is the number of requests that were read and come behind the one that next returned
	// last; seen is how far they are counted.
	behind, seen int

	now     time.Time // of the last read
	read    mono.Time // the same
	arrived mono.Time // when what it read had come, by the kernel if it knows
}

// next returns the next frame without its length; it is valid until the next call.
func (in *inbox) next() ([]byte, error) {
	for {
		have := in.buf[in.r:in.w]
		need := lengthLen
		if len(have) >= lengthLen {
			n := binary.BigEndian.Uint32(have)
			if n < 4 || uint64(n) > uint64(in.limit) {
				return nil, broken("a frame has %d bytes, expected 4 to %d", n, in.limit)
			}
			need += int(n)
		}
		if need > lengthLen && len(have) >= need {
			in.r += need
			if have[lengthLen] == kindRequest {
				in.behind--
			}
			return have[lengthLen:need], nil
		}
		if err := in.fill(need); err != nil {
			if err == io.EOF && len(have) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// fill reads once. The buffer grows towards need bytes as they come, not as they are announced.
func (in *inbox) fill(need int) error {
	size := max(len(in.buf), leastInbox)
	switch {
	case in.full:
		size = min(2*size, max(mostInbox, need))
	case size > mostInbox && need <= mostInbox:
		size = mostInbox
	}
	if size != len(in.buf) && in.w-in.r <= size {
		fresh := make([]byte, size)
		in.w = copy(fresh, in.buf[in.r:in.w])
		in.seen -= in.r
		in.r, in.buf = 0, fresh
	} else if in.r > 0 {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.seen -= in.r
		in.r = 0
	}
	if in.idle != nil {
		in.idle()
	}
	n, err := in.conn.Read(in.buf[in.w:])
	if n == 0 {
		return err
	}
	in.stamp()
	in.w += n
	in.full = in.w == len(in.buf)
	in.count()
	return nil
}

// count counts the requests that have been read whole.
func (in *inbox) count() {
	for in.w-in.seen > lengthLen {
		n := binary.BigEndian.Uint32(in.buf[in.seen:])
		if n < 4 || uint64(n) > uint64(in.limit) || in.w-in.seen < lengthLen+int(n) {
			return // next says what is wrong with it
		}
		if in.buf[in.seen+lengthLen] == kindRequest {
			in.behind++
		}
		in.seen += lengthLen + int(n)
	}
}

// stamp dates what was just read: not before the last read if that left nothing behind, not
// after now.
func (in *inbox) stamp() {
	last := in.now
	in.now = time.Now()
	at := in.now
	if by, ok := stamp.Arrival(in.conn); ok {
		// The stamp is in wall-clock time, and says how long ago that was.
		at = in.now.Add(-min(max(in.now.Round(0).Sub(by), 0), oldest))
		if !in.full && at.Before(last) {
			at = last
		}
	}
	in.read, in.arrived = live.Instant(in.now), live.Instant(at)
}
