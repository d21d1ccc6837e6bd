package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// Version is the first byte of every message.
	Version = 1
	// MaxLen is the longest message, in bytes. A longer one is refused unread.
	MaxLen = 512
	// MaxDuration is the longest duration that travels. A request with a larger
	// budget than a day has none to speak of.
	MaxDuration = 24 * time.Hour
	// MaxWorkflow is the longest name of a workflow or a service, in bytes.
	MaxWorkflow = 64
	// MaxCount is the largest demand and the largest window, in requests.
	MaxCount = 1 << 16
	// MaxRate is the largest rate that travels, in requests per second.
	MaxRate = 1 << 30
	// rateUnit is how many units of a rate that travels make one request per
	// second. All its values are exact as a float64.
	rateUnit = 1024

	// MetadataKey is the gRPC metadata key of both messages.
	MetadataKey = "spillgate-bin"
	// HeaderName is the HTTP header of both messages.
	HeaderName = "Spillgate"
)

var (
	// ErrMalformed is wrapped by every error about a message that breaks a rule
	// of its format.
	ErrMalformed = errors.New("wire: malformed message")
	// ErrVersion is wrapped by the error about a message of another version.
	// Treat the peer as one that sent nothing.
	ErrVersion = errors.New("wire: unknown version")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// fields walks a message. next returns false at its end and at its first error.
type fields struct {
	rest  []byte
	seen  uint64 // known fields met so far, by number
	field byte
	value []byte
	err   error
}

func open(msg []byte) fields {
	switch {
	case len(msg) == 0:
		return fields{err: malformed("it is empty, expected a version byte")}
	case len(msg) > MaxLen:
		return fields{err: malformed("it has %d bytes, expected at most %d", len(msg), MaxLen)}
	case msg[0] != Version:
		return fields{err: fmt.Errorf("%w %d, expected %d", ErrVersion, msg[0], Version)}
	}
	return fields{rest: msg[1:]}
}

func (f *fields) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	if len(f.rest) < 2 || len(f.rest)-2 < int(f.rest[1]) {
		f.err = malformed("field %d is cut off after %d bytes", f.rest[0], len(f.rest))
		return false
	}
	n := int(f.rest[1])
	f.field, f.value, f.rest = f.rest[0], f.rest[2:2+n], f.rest[2+n:]
	return true
}

// once notes that the field is known and must not come a second time.
func (f *fields) once() {
	bit := uint64(1) << (f.field % 64)
	if f.seen&bit != 0 && f.err == nil {
		f.err = malformed("field %d comes twice", f.field)
	}
	f.seen |= bit
}

// size reports whether the value has n bytes.
func (f *fields) size(n int) bool {
	if len(f.value) == n {
		return true
	}
	if f.err == nil {
		f.err = malformed("field %d has %d bytes, expected %d", f.field, len(f.value), n)
	}
	return false
}

// uint8 reads a one-byte value up to most.
func (f *fields) uint8(most uint8) uint8 {
	if !f.size(1) {
		return 0
	}
	return uint8(f.bounded(uint64(f.value[0]), 0, uint64(most)))
}

// count reads a four-byte value up to MaxCount.
func (f *fields) count() int {
	if !f.size(4) {
		return 0
	}
	return int(f.bounded(uint64(binary.BigEndian.Uint32(f.value)), 0, MaxCount))
}

// duration reads nanoseconds from b, which must have eight bytes.
func (f *fields) duration(b []byte, least time.Duration) time.Duration {
	return time.Duration(f.bounded(binary.BigEndian.Uint64(b), uint64(least), uint64(MaxDuration)))
}

// rate reads an eight-byte value up to MaxRate.
func (f *fields) rate() float64 {
	return float64(f.bounded(binary.BigEndian.Uint64(f.value), 0, MaxRate*rateUnit)) / rateUnit
}

func (f *fields) bounded(v, least, most uint64) uint64 {
	if v < least || v > most {
		if f.err == nil {
			f.err = malformed("field %d is %d, expected %d to %d", f.field, v, least, most)
		}
		return 0
	}
	return v
}

// name reads a value that ValidWorkflow must accept; what says whose name it is.
func (f *fields) name(what string) string {
	if !validWorkflow(f.value) && f.err == nil {
		f.err = malformed("%s %.80q, expected 1 to %d visible ASCII characters without , ; = %% \" \\", what, f.value, MaxWorkflow)
	}
	return string(f.value)
}

func appendDuration(dst []byte, d time.Duration) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(min(max(d, 0), MaxDuration)))
}

// appendRate appends a rate that is a number.
func appendRate(dst []byte, rate float64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(min(max(rate, 0), MaxRate)*rateUnit))
}

// Header returns msg as the value of the HTTP header HeaderName: base64url
// without padding.
func Header(msg []byte) string { return base64.RawURLEncoding.EncodeToString(msg) }

// FromHeader returns the message in the value of an HTTP header. The message
// is yet to be parsed.
func FromHeader(value string) ([]byte, error) {
	if n := base64.RawURLEncoding.DecodedLen(len(value)); n > MaxLen {
		return nil, malformed("the header has %d characters, which makes %d bytes, expected at most %d", len(value), n, MaxLen)
	}
	if strings.ContainsAny(value, "\r\n") { // which the decoder would skip
		return nil, malformed("the header has a line break")
	}
	msg, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil {
		return nil, malformed("the header is not base64url without padding: %w", err)
	}
	return msg, nil
}
