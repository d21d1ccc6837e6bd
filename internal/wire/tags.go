package wire

import (
	"encoding/binary"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// Field numbers of Tags: 1 to 63, so that neither message can be taken for the
// other.
const (
	fieldBudget   = 1
	fieldWorkflow = 2
	fieldClass    = 3
	fieldPriority = 4
	fieldAttempt  = 5
	fieldDemand   = 6
	fieldClient   = 7
	fieldTotal    = 8
	fieldProcess  = 9
	fieldClaim    = 10
	fieldWaited   = 11
	fieldToken    = 12
	fieldAsks     = 13
)

const totalLen = 2 * progressLen

// MaxAttempt is the largest Tags.Attempt.
const MaxAttempt = 255

// Tags is what a request says about itself. The zero Tags says nothing.
type Tags struct {
	// Budget is the time left when the request was sent, up to MaxDuration.
	// Zero means that none was set; a request that is out of time is sent, if at
	// all, with a negative one, which arrives as one nanosecond.
	Budget time.Duration
	// Workflow is a name that ValidWorkflow accepts, or empty for the default
	// workflow.
	Workflow string
	// Class and Priority as the sender claims them.
	Class    work.Class
	Priority work.Priority
	// Credits says that the sender keeps a wallet: it obeys grants and wants
	// them on replies. Demand has a meaning only with it: the further requests
	// that the sender has ready for this server, 0 to MaxCount.
	Credits bool
	// Asks says that the sender knows no grant: the reply must carry one, or says that the
	// server grants none. It has a meaning only with Credits.
	Asks   bool
	Demand int
	// Attempt is 0 for a first attempt and counts retries, up to MaxAttempt.
	Attempt int
	// Client identifies the sender where connections do not: behind a proxy
	// that shares them. Zero means that the connection is the identity.
	Client uint64
	// Total is what a whole request of the workflow takes, from the entry point
	// on, as expected there; zero if unknown. Elapsed is what the request has
	// received before it was sent here. The order of a queue follows from them:
	// what remains of the service, the work in total, the work so far.
	Total, Elapsed Progress
	// Process identifies the sending process, by the same number on all its
	// connections: shares of a rate are announced to processes. It also says that
	// the sender wants to know what the request took. Zero means that the account
	// is the process.
	Process uint64
	// Claim is the rate at which the sending process would send requests of the
	// workflow here if nobody held it back, in requests per second, up to MaxRate;
	// zero if it does not say. A share of a rate follows from it, so that of a
	// stranger must not be believed.
	Claim float64
	// Waited is for how long the request waited at its sender before it was sent, up to
	// MaxDuration: for a credit of the receiver, and for the attempts before this one.
	// The wait counts against the receiver's objective, as the caller sees it.
	Waited time.Duration
	// Token is that of the Resend which came when the request was cancelled, zero if it
	// was not.
	Token Token
}

// MaxTags is the longest message that Tags.Append writes, in bytes: room for it
// on the stack spares an allocation.
const MaxTags = 1 + 10 + 2 + MaxWorkflow + 3 + 3 + 3 + 6 + 2 + 10 + 2 + totalLen + 10 + 10 + 10 + 2 + tokenLen

// ValidWorkflow reports whether name can travel: 1 to MaxWorkflow visible ASCII
// characters other than comma, semicolon, equals sign, percent sign, quotation
// mark and backslash, so that it needs no quoting in headers, baggage and
// metric labels.
func ValidWorkflow(name string) bool { return validWorkflow(name) }

func validWorkflow[T string | []byte](name T) bool {
	if len(name) == 0 || len(name) > MaxWorkflow {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c <= ' ', c > '~', c == ',', c == ';', c == '=', c == '%', c == '"', c == '\\':
			return false
		}
	}
	return true
}

// Append appends the message to dst. What is out of range is brought into it: a
// number to the nearest one allowed, a budget above MaxDuration, a workflow that
// is not valid, a class that does not exist and a claim that is no number to
// nothing. A claim is rounded down.
func (t Tags) Append(dst []byte) []byte {
	dst = append(dst, Version)
	if t.Budget != 0 && t.Budget <= MaxDuration {
		dst = appendDuration(append(dst, fieldBudget, 8), max(t.Budget, 1))
	}
	if ValidWorkflow(t.Workflow) {
		dst = append(dst, fieldWorkflow, byte(len(t.Workflow)))
		dst = append(dst, t.Workflow...)
	}
	if t.Class != 0 && t.Class < work.NumClasses {
		dst = append(dst, fieldClass, 1, byte(t.Class))
	}
	if t.Priority != 0 {
		dst = append(dst, fieldPriority, 1, byte(min(t.Priority, work.MaxPriority)))
	}
	if t.Attempt > 0 {
		dst = append(dst, fieldAttempt, 1, byte(min(t.Attempt, MaxAttempt)))
	}
	if t.Credits {
		dst = append(dst, fieldDemand, 4)
		dst = binary.BigEndian.AppendUint32(dst, uint32(min(max(t.Demand, 0), MaxCount)))
	}
	if t.Asks {
		dst = append(dst, fieldAsks, 0)
	}
	if t.Client != 0 {
		dst = append(dst, fieldClient, 8)
		dst = binary.BigEndian.AppendUint64(dst, t.Client)
	}
	if total, elapsed := t.Total.bounded(), t.Elapsed.bounded(); total != (Progress{}) || elapsed != (Progress{}) {
		dst = elapsed.append(total.append(append(dst, fieldTotal, totalLen)))
	}
	if t.Process != 0 {
		dst = append(dst, fieldProcess, 8)
		dst = binary.BigEndian.AppendUint64(dst, t.Process)
	}
	if t.Claim > 0 { // and so is a number
		dst = appendRate(append(dst, fieldClaim, 8), t.Claim)
	}
	if t.Waited > 0 {
		dst = appendDuration(append(dst, fieldWaited, 8), t.Waited)
	}
	if t.Token != (Token{}) {
		dst = append(append(dst, fieldToken, tokenLen), t.Token[:]...)
	}
	return dst
}

// ParseTags decodes a message from a client. The error wraps ErrMalformed or
// ErrVersion, and the Tags beside it say nothing. Nothing of msg is kept.
func ParseTags(msg []byte) (Tags, error) {
	var t Tags
	f := open(msg)
	for f.next() {
		switch f.field {
		case fieldBudget:
			f.once()
			if f.size(8) {
				t.Budget = f.duration(f.value, 1)
			}
		case fieldWorkflow:
			f.once()
			t.Workflow = f.name("workflow")
		case fieldClass:
			f.once()
			t.Class = work.Class(f.uint8(uint8(work.NumClasses - 1)))
		case fieldPriority:
			f.once()
			t.Priority = work.Priority(f.uint8(uint8(work.MaxPriority)))
		case fieldAttempt:
			f.once()
			t.Attempt = int(f.uint8(MaxAttempt))
		case fieldDemand:
			f.once()
			t.Credits, t.Demand = true, f.count()
		case fieldClient:
			f.once()
			if f.size(8) {
				t.Client = binary.BigEndian.Uint64(f.value)
			}
		case fieldTotal:
			f.once()
			if f.size(totalLen) {
				t.Total, t.Elapsed = f.progress(f.value), f.progress(f.value[progressLen:])
			}
		case fieldProcess:
			f.once()
			if f.size(8) {
				t.Process = binary.BigEndian.Uint64(f.value)
			}
		case fieldClaim:
			f.once()
			if f.size(8) {
				t.Claim = f.rate()
			}
		case fieldWaited:
			f.once()
			if f.size(8) {
				t.Waited = f.duration(f.value, 0)
			}
		case fieldAsks:
			f.once()
			t.Asks = f.size(0)
		case fieldToken:
			f.once()
			t.Token = f.token()
		}
	}
	if f.err != nil {
		return Tags{}, f.err
	}
	return t, nil
}
