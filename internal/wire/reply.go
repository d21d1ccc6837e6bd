package wire

import (
	"encoding/binary"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// Field numbers of Reply: 65 to 127.
const (
	fieldGrant    = 65
	fieldShed     = 66
	fieldProgress = 67
	fieldRate     = 68
	fieldAnswerer = 69
	fieldService  = 70
	fieldFor      = 71
	fieldAsker    = 72
	fieldAim      = 73
	fieldPart     = 74
	fieldResend   = 75
)

const (
	grantLen = 20
	shedLen  = 10
	// resendLen is a token and a duration.
	resendLen = tokenLen + 8

	flagRetryable = 1
)

// Shed says that the request was refused, and what the caller may do about it.
// It comes from the gate that refused, so it stays true where a handler in
// between rewrote the error.
type Shed struct {
	// Reason is why. work.None is a reason that this version does not know.
	Reason work.Reason
	// Retryable says that nothing was executed and a later attempt may succeed.
	Retryable bool
	// Pushback is how long to wait before that attempt, up to MaxDuration. It
	// is negative, which means never, exactly if Retryable is false.
	Pushback time.Duration
}

// Reply is what a server says to a client beside its answer, or without one on
// a control stream. The zero Reply says nothing.
type Reply struct {
	// Grant is the client's credits, if HasGrant.
	Grant    Grant
	HasGrant bool
	// Shed is why the request was refused, if HasShed.
	Shed    Shed
	HasShed bool
	// Resend says how a request that was cancelled while it ran may be sent again, if
	// its Token is not zero.
	Resend Resend
	// Progress is what the request took, here and below, if HasProgress.
	Progress    Progress
	HasProgress bool
	// Rate is the most requests per second of the request's workflow that the
	// caller's process should send to this one, 0 to MaxRate, if HasRate; without
	// it there is no limit to announce. It is one announcement of many: the
	// newest counts, until it is too old.
	Rate    float64
	HasRate bool
	// Process identifies the process that answers, over its life; zero if it does
	// not say. Service is a name that ValidWorkflow accepts, common to the
	// processes that can stand in for each other, or empty. A caller takes the
	// rates of one service's processes together.
	Process uint64
	Service string
	// Workflow is whose rate it is, in a Reply that answers no request: a name that
	// ValidWorkflow accepts, or empty for the default workflow. Asker is the
	// process that asked for it, zero in a Reply that answers a request.
	Workflow string
	Asker    uint64
}

// MaxReply is the longest message that Reply.Append writes in answer to a request,
// in bytes: room for it on the stack spares an allocation.
const MaxReply = 1 + 2 + grantLen + 10 + 10 + 2 + shedLen + 2 + progressLen + 10 + 10 + 2 + MaxWorkflow + 2 + resendLen

// Append appends the message to dst. Numbers out of range are brought to the
// nearest one allowed, the rate is rounded down; a rate that is no number, and a
// service or a workflow that is not valid, are left out.
func (r Reply) Append(dst []byte) []byte {
	dst = append(dst, Version)
	if r.HasGrant {
		dst = append(dst, fieldGrant, grantLen)
		dst = binary.BigEndian.AppendUint32(dst, r.Grant.Epoch)
		dst = binary.BigEndian.AppendUint32(dst, r.Grant.Seq)
		dst = binary.BigEndian.AppendUint32(dst, min(r.Grant.Window, MaxCount))
		dst = appendDuration(dst, r.Grant.Revive)
		if r.Grant.Objective > 0 {
			dst = appendDuration(append(dst, fieldAim, 8), r.Grant.Objective)
		}
		if r.Grant.Part > 0 { // and so is a number
			dst = appendRate(append(dst, fieldPart, 8), r.Grant.Part)
		}
	}
	if r.HasShed {
		dst = append(dst, fieldShed, shedLen, byte(r.Shed.Reason))
		if r.Shed.Retryable {
			dst = appendDuration(append(dst, flagRetryable), r.Shed.Pushback)
		} else {
			dst = appendDuration(append(dst, 0), 0)
		}
	}
	if r.Resend.Token != (Token{}) {
		dst = append(append(dst, fieldResend, resendLen), r.Resend.Token[:]...)
		dst = appendDuration(dst, r.Resend.After)
	}
	if r.HasProgress {
		dst = r.Progress.bounded().append(append(dst, fieldProgress, progressLen))
	}
	if r.HasRate && r.Rate == r.Rate {
		dst = appendRate(append(dst, fieldRate, 8), r.Rate)
	}
	if r.Process != 0 {
		dst = append(dst, fieldAnswerer, 8)
		dst = binary.BigEndian.AppendUint64(dst, r.Process)
	}
	if ValidWorkflow(r.Service) {
		dst = append(dst, fieldService, byte(len(r.Service)))
		dst = append(dst, r.Service...)
	}
	if ValidWorkflow(r.Workflow) {
		dst = append(dst, fieldFor, byte(len(r.Workflow)))
		dst = append(dst, r.Workflow...)
	}
	if r.Asker != 0 {
		dst = append(dst, fieldAsker, 8)
		dst = binary.BigEndian.AppendUint64(dst, r.Asker)
	}
	return dst
}

// ParseReply decodes a message from a server. The error wraps ErrMalformed or
// ErrVersion, and the Reply beside it says nothing. Nothing of msg is kept.
func ParseReply(msg []byte) (Reply, error) {
	var r Reply
	f := open(msg)
	for f.next() {
		switch v := f.value; f.field {
		case fieldGrant:
			f.once()
			if f.size(grantLen) {
				r.HasGrant = true
				f.grant(&r.Grant)
			}
		case fieldAim:
			f.once()
			if f.size(8) {
				r.Grant.Objective = f.duration(v, 1)
			}
		case fieldPart:
			f.once()
			if f.size(8) {
				r.Grant.Part = f.rate()
			}
		case fieldShed:
			f.once()
			if f.size(shedLen) {
				r.HasShed, r.Shed = true, f.shed()
			}
		case fieldResend:
			f.once()
			if f.size(resendLen) {
				r.Resend.Token = Token(v[:tokenLen])
				r.Resend.After = f.duration(v[tokenLen:], 0)
				if r.Resend.Token == (Token{}) {
					r.Resend.After = 0
				}
			}
		case fieldProgress:
			f.once()
			if f.size(progressLen) {
				r.HasProgress = true
				r.Progress = f.progress(v)
			}
		case fieldRate:
			f.once()
			if f.size(8) {
				r.HasRate = true
				r.Rate = f.rate()
			}
		case fieldAnswerer:
			f.once()
			if f.size(8) {
				r.Process = binary.BigEndian.Uint64(v)
			}
		case fieldService:
			f.once()
			r.Service = f.name("service")
		case fieldFor:
			f.once()
			r.Workflow = f.name("workflow")
		case fieldAsker:
			f.once()
			if f.size(8) {
				r.Asker = binary.BigEndian.Uint64(v)
			}
		}
	}
	if f.err != nil {
		return Reply{}, f.err
	}
	if !r.HasGrant {
		r.Grant.Objective, r.Grant.Part = 0, 0
	}
	return r, nil
}

// grant reads the field of a grant. Objective and Part, which have fields of their
// own, stay.
func (f *fields) grant(to *Grant) {
	to.Epoch = binary.BigEndian.Uint32(f.value)
	to.Seq = binary.BigEndian.Uint32(f.value[4:])
	to.Window = uint32(f.bounded(uint64(binary.BigEndian.Uint32(f.value[8:])), 0, MaxCount))
	to.Revive = f.duration(f.value[12:], 0)
}

func (f *fields) shed() Shed {
	s := Shed{Reason: work.Reason(f.value[0]), Retryable: f.value[1]&flagRetryable != 0, Pushback: f.duration(f.value[2:], 0)}
	if int(s.Reason) >= work.NumReasons {
		s.Reason = work.None // a newer server's: the rest of the field still holds
	}
	if !s.Retryable {
		s.Pushback = -1
	}
	return s
}
