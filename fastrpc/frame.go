package fastrpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// FORMAT.md is normative for what is here.

// ErrProtocol is wrapped by every error about a peer that breaks FORMAT.md. The connection
// is closed, and the peer is told why.
var ErrProtocol = errors.New("fastrpc: the peer broke the protocol")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrProtocol, fmt.Errorf(format, args...))
}

const (
	magic      = "SGFR"
	version    = 1
	prefaceLen = 16
	lengthLen  = 4

	kindRequest  = 0x01
	kindMethod   = 0x02
	kindCancel   = 0x03
	kindDemand   = 0x04
	kindClose    = 0x05
	kindResponse = 0x81
	kindGrant    = 0x82
	kindDrain    = 0x83

	// The sizes count from behind the length of a frame, in bytes.
	requestLen  = 24
	responseLen = 28
	shortLen    = 8 // of frames of 4 bytes and a number
	bindLen     = 4 // of a method frame without the name

	flagCredits = 1 << 0 // of a preface

	flagTimed = 1 << 0 // of a request: the answer says the times

	flagGranted   = 1 << 0 // of a response: it has a grant
	flagTimes     = 1 << 1 // it has the times
	flagRetryable = 1 << 2 // a later attempt may succeed

	// MaxMethod is the longest name of a method, in bytes.
	MaxMethod = 255
	// MaxMethods is the most methods of a connection. A server closes a connection that
	// names more.
	MaxMethods = 1024
	// MaxLanes is the most requests in flight on a connection.
	MaxLanes = 1 << 14
	// maxReason is the longest text of a close frame and of an application's error, in bytes.
	maxReason = 1024
	// leastFrame is the smallest limit for a frame, in bytes: any frame without a body fits.
	leastFrame = 4096
)

// The statuses of a response.
const (
	statusOK uint8 = iota
	statusError
	statusRefused
	statusNoMethod
	statusFailed
	statusEnded
	numStatuses
)

// preface is the first thing that each side says.
type preface struct {
	lowest, highest uint8 // versions; a server's are equal, 0 if none is in common
	credits         bool
	frame           uint32 // the longest frame that this side takes, in bytes
	lanes           uint32 // of a server: the most requests in flight
}

func (p preface) append(dst []byte) []byte {
	var flags uint16
	if p.credits {
		flags = flagCredits
	}
	dst = append(append(dst, magic...), p.lowest, p.highest)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, p.frame)
	return binary.BigEndian.AppendUint32(dst, p.lanes)
}

func parsePreface(b []byte) (preface, error) {
	if len(b) != prefaceLen || string(b[:4]) != magic {
		return preface{}, broken("the preface is %.16q, expected 16 bytes that begin with %q", b, magic)
	}
	p := preface{
		lowest: b[4], highest: b[5], credits: binary.BigEndian.Uint16(b[6:])&flagCredits != 0,
		frame: binary.BigEndian.Uint32(b[8:]), lanes: binary.BigEndian.Uint32(b[12:]),
	}
	if p.lowest > p.highest {
		return preface{}, broken("the preface says versions %d to %d, expected the lower one first", p.lowest, p.highest)
	}
	if p.frame < leastFrame {
		return preface{}, broken("the preface limits frames to %d bytes, expected %d or more", p.frame, leastFrame)
	}
	return p, nil
}

// answer returns the version that both sides speak, 0 if there is none.
func (p preface) answer() uint8 {
	if p.lowest <= version && version <= p.highest {
		return version
	}
	return 0
}

// request is what a request frame says.
type request struct {
	timed    bool
	method   uint16
	stream   uint32
	budget   time.Duration // 0: none
	waited   time.Duration
	demand   uint16
	attempt  uint8
	class    work.Class
	priority work.Priority
	tags     []byte // all else, a message of wire.Tags; empty: nothing
}

// append appends the frame with the body, which with the tags must fit.
func (r *request) append(dst, body []byte) []byte {
	var flags byte
	if r.timed {
		flags = flagTimed
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(requestLen+len(r.tags)+len(body)))
	dst = append(dst, kindRequest, flags)
	dst = binary.BigEndian.AppendUint16(dst, r.method)
	dst = binary.BigEndian.AppendUint32(dst, r.stream)
	dst = binary.BigEndian.AppendUint32(dst, micros(r.budget))
	dst = binary.BigEndian.AppendUint32(dst, micros(r.waited))
	dst = binary.BigEndian.AppendUint16(dst, r.demand)
	dst = append(dst, r.attempt, byte(r.class), byte(r.priority), 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.tags)))
	return append(append(dst, r.tags...), body...)
}

// parseRequest reads a request frame, without its length. The tags and the body are
// parts of it.
func parseRequest(f []byte, r *request) (body []byte, err error) {
	if len(f) < requestLen {
		return nil, broken("a request frame has %d bytes, expected %d or more", len(f), requestLen)
	}
	*r = request{
		timed: f[1]&flagTimed != 0, method: binary.BigEndian.Uint16(f[2:]), stream: binary.BigEndian.Uint32(f[4:]),
		budget: duration(f[8:], time.Microsecond), waited: duration(f[12:], time.Microsecond),
		demand: binary.BigEndian.Uint16(f[16:]), attempt: f[18], class: work.Class(f[19]), priority: work.Priority(f[20]),
	}
	n := int(binary.BigEndian.Uint16(f[22:]))
	switch {
	case r.class >= work.NumClasses:
		return nil, broken("a request has class %d, expected 0 to %d", r.class, work.NumClasses-1)
	case r.priority > work.MaxPriority:
		return nil, broken("a request has priority %d, expected 0 to %d", r.priority, work.MaxPriority)
	case n > wire.MaxLen || n > len(f)-requestLen:
		return nil, broken("a request has %d bytes of tags in %d bytes, expected at most %d", n, len(f)-requestLen, wire.MaxLen)
	}
	r.tags = f[requestLen : requestLen+n]
	return f[requestLen+n:], nil
}

// response is what a response frame says.
type response struct {
	stream          uint32
	status          uint8
	reason          work.Reason // of statusRefused
	retryable       bool
	delay           time.Duration // before another attempt
	granted, timed  bool
	seq             uint32
	window          uint16
	queued, service time.Duration
	reply           []byte // all else, a message of wire.Reply; empty: nothing
}

func (r *response) append(dst, body []byte) []byte {
	var flags byte
	if r.granted {
		flags |= flagGranted
	}
	if r.timed {
		flags |= flagTimes
	}
	if r.retryable {
		flags |= flagRetryable
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(responseLen+len(r.reply)+len(body)))
	dst = append(dst, kindResponse, flags, r.status, byte(r.reason))
	dst = binary.BigEndian.AppendUint32(dst, r.stream)
	dst = binary.BigEndian.AppendUint32(dst, r.seq)
	dst = binary.BigEndian.AppendUint16(dst, r.window)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.reply)))
	dst = binary.BigEndian.AppendUint32(dst, micros(r.delay))
	dst = binary.BigEndian.AppendUint32(dst, nanos(r.queued))
	dst = binary.BigEndian.AppendUint32(dst, nanos(r.service))
	return append(append(dst, r.reply...), body...)
}

// parseResponse reads a response frame, without its length. The reply and the body are
// parts of it.
func parseResponse(f []byte, r *response) (body []byte, err error) {
	if len(f) < responseLen {
		return nil, broken("a response frame has %d bytes, expected %d or more", len(f), responseLen)
	}
	*r = response{
		granted: f[1]&flagGranted != 0, timed: f[1]&flagTimes != 0, retryable: f[1]&flagRetryable != 0,
		status: f[2], reason: work.Reason(f[3]), stream: binary.BigEndian.Uint32(f[4:]), seq: binary.BigEndian.Uint32(f[8:]),
		window: binary.BigEndian.Uint16(f[12:]), delay: duration(f[16:], time.Microsecond),
		queued: duration(f[20:], time.Nanosecond), service: duration(f[24:], time.Nanosecond),
	}
	if r.status >= numStatuses {
		return nil, broken("a response has status %d, expected 0 to %d", r.status, numStatuses-1)
	}
	if int(r.reason) >= work.NumReasons {
		r.reason = work.None // a newer server's
	}
	n := int(binary.BigEndian.Uint16(f[14:]))
	if n > wire.MaxLen || n > len(f)-responseLen {
		return nil, broken("a response has a reply of %d bytes in %d bytes, expected at most %d", n, len(f)-responseLen, wire.MaxLen)
	}
	r.reply = f[responseLen : responseLen+n]
	return f[responseLen+n:], nil
}

// appendShort appends a frame that says one number: cancel (a stream), demand
// (requests), drain (a delay in µs).
func appendShort(dst []byte, kind byte, v uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, shortLen)
	dst = append(dst, kind, 0, 0, 0)
	return binary.BigEndian.AppendUint32(dst, v)
}

func parseShort(f []byte) (uint32, error) {
	if len(f) != shortLen {
		return 0, broken("a frame of kind %#x has %d bytes, expected %d", f[0], len(f), shortLen)
	}
	return binary.BigEndian.Uint32(f[4:]), nil
}

func appendMethod(dst []byte, number uint16, name string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(bindLen+len(name)))
	dst = append(dst, kindMethod, 0)
	dst = binary.BigEndian.AppendUint16(dst, number)
	return append(dst, name...)
}

func parseMethod(f []byte) (number uint16, name []byte, err error) {
	if len(f) <= bindLen || len(f) > bindLen+MaxMethod {
		return 0, nil, broken("a method frame has %d bytes, expected a name of 1 to %d bytes behind %d", len(f), MaxMethod, bindLen)
	}
	if number = binary.BigEndian.Uint16(f[2:]); number >= MaxMethods {
		return 0, nil, broken("a method has number %d, expected less than %d", number, MaxMethods)
	}
	return number, f[bindLen:], nil
}

// appendText appends a frame of 4 bytes and b: close (a text) and grant (a message of
// wire.Reply).
func appendText(dst []byte, kind byte, b []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(b)))
	dst = append(dst, kind, 0, 0, 0)
	return append(dst, b...)
}

func parseText(f []byte, most int) ([]byte, error) {
	if len(f) < 4 || len(f) > 4+most {
		return nil, broken("a frame of kind %#x has %d bytes, expected 4 to %d", f[0], len(f), 4+most)
	}
	return f[4:], nil
}

// micros returns d in µs, rounded up so that only 0 is nothing.
func micros(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min((d-1)/time.Microsecond+1, math.MaxUint32))
}

func nanos(d time.Duration) uint32 { return uint32(min(max(d, 0), math.MaxUint32)) }

func duration(b []byte, unit time.Duration) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * unit
}

// lane is the place of a stream among those in flight.
func lane(stream uint32) int { return int(stream & 0xffff) }

// bounded cuts a text that travels.
func bounded(s string) []byte {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return []byte(s)
}
