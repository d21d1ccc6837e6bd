package httpgate

import (
	"errors"
	"net/http"
	"time"
)

// Patience is what a Handler puts up with from clients that send or read slowly, so that
// they hold no slot that others need. Zero fields take the default, negative ones switch
// the rule off.
type Patience struct {
	// Gather is how much of a request body is read before the request asks for a slot, in
	// bytes. Default 64 KiB. The length must be announced; other bodies are awaited while their
	// clients send without a pause, where slots are in use. A client that waits for "100
	// Continue" is asked for its body when it has a slot, which it then gives back until the
	// body is there.
	Gather int
	// Rate is the least rate at which that must come, on average and after Grace,
	// in bytes per second. Default 240. A slower client is answered 408.
	Rate int
	// Grace is how much longer than Rate allows a body may take. Default 5 s.
	Grace time.Duration
	// Silence is how long a client may send nothing in the middle of a longer body, which must
	// come at Rate too. Default 60 s. Then the body fails. A body of unknown length over HTTP/2 may
	// be half of a two-way stream, and is held to neither.
	Silence time.Duration
	// Blocked is how long in all the handler may wait for a client to read what it
	// writes, beyond 2 KiB or with a flush, before the request gives its slot back: the answer is
	// made, and only its way takes time. While others wait for a slot, one wait of a fiftieth of
	// that is enough. A handler that goes on to compute what it writes next does that without a
	// slot, as nothing of an answer that has begun can be refused: it should have computed all
	// before it writes, or do the rest in spillgate.Gate.Do.
	//
	// It is also how long in all the handler may wait for the client to send
	// a body that was not read before: the request gives its slot back, and takes one
	// again for what follows the end of the body, or is refused then. A request whose like was
	// answered before the end of its body in the last ten minutes keeps its slot: its work does
	// not wait for the client. Default 100 ms.
	Blocked time.Duration
	// Write is how long a client may take to read what is written at once, up to 256 KiB of
	// it. Default 60 s. A slower one is disconnected. A server with a WriteTimeout of its
	// own keeps that, as one with a ReadTimeout does for Rate.
	Write time.Duration
}

// The defaults of Patience.
const (
	defaultGather  = 64 << 10
	defaultRate    = 240
	defaultGrace   = 5 * time.Second
	defaultBlocked = 100 * time.Millisecond
	defaultWrite   = time.Minute
	defaultSilence = time.Minute
)

// ErrSlowBody and ErrBrokenBody say, to OnBadBody, what was wrong with a request's body.
var (
	ErrSlowBody   = errors.New("httpgate: the body arrived too slowly")
	ErrBrokenBody = errors.New("httpgate: the body is cut off or malformed")
)

// Patient sets what the handler puts up with from slow clients. Of several, the last
// counts.
func Patient(p Patience) Option { return func(o *options) { o.patience = p.withDefaults() } }

// OnBadBody is told of requests that were answered 408 or 400 because of their body,
// before they asked for a slot; err is ErrSlowBody or wraps ErrBrokenBody. f must not
// block.
func OnBadBody(f func(*http.Request, error)) Option {
	return func(o *options) { o.badBody = f }
}

func (p Patience) withDefaults() Patience {
	or := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orFor := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	or(&p.Gather, defaultGather)
	or(&p.Rate, defaultRate)
	orFor(&p.Grace, defaultGrace)
	orFor(&p.Blocked, defaultBlocked)
	orFor(&p.Write, defaultWrite)
	orFor(&p.Silence, defaultSilence)
	return p
}
