package credit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// firstFlight is how many requests a client sends by default to a server that has not
// granted anything yet. A server with a Pool answers the first with a grant; one
// without shows by its first reply that it has none.
const firstFlight = 8

const (
	// silence is how many times Grant.Revive a client with a window used up by
	// slow requests waits until it sends one unasked. It has told its demand
	// after one at most, if there is a way to, and that comes first: see quietAt.
	silence = 4
	// firstSilence is how long a server that has answered nothing yet, and is sent as many requests as it may be, keeps others
	// waiting until it may be sent twice as many: it may have no credits, and what it was sent may be long polls. One with
	// credits answers some of the first, or refuses them, within its objective.
	firstSilence = 2 * firstPatience
	// firstPatience is how long such a server may leave the first requests unanswered, while others wait, until it is worth
	// knowing whether it has credits at all: they may be long polls or streams. Most answers come sooner.
	firstPatience = 100 * time.Millisecond
	// leastRevive is the least Grant.Revive that counts. A request that is refused costs a server some 100 µs, so what one
	// client sends unasked takes at most a tenth of a processor; with 0 it would send all that it has.
	leastRevive = time.Millisecond
)

// Window is a client's side of its account at one server: what it may have
// outstanding there. A Window belongs to one Wallet and is not safe for
// concurrent use.
type Window struct {
	state       windowState
	grant       wire.Grant
	outstanding int
	reviveAt    mono.Time
	heardAt     mono.Time // of the last grant or sending
	closed      bool
	first       int // most outstanding while it is unknown
	place       int // among the offers
	offered     int
	asPlain     bool // it counts as plain there,
	levelled    int  // and its limit was this when the plain ones were levelled
	// told is the demand last reported without a request.
	told   int
	tellAt mono.Time // not again before
	// Owner is for the driver: the connection behind the window.
	Owner any
}

type windowState uint8

const (
	unknown  windowState = iota // nothing heard yet
	plain                       // the server grants nothing: no limit
	credited                    // the newest grant holds
)

// Outstanding returns the requests sent and not yet answered.
func (w *Window) Outstanding() int { return w.outstanding }

// Objective returns the objective that the server's newest grant said, 0 if it said
// none.
func (w *Window) Objective() time.Duration { return w.grant.Objective }

// Limit returns the most requests that may be outstanding now.
func (w *Window) Limit() int {
	switch w.state {
	case plain:
		return WindowLimit
	case credited:
		return int(min(w.grant.Window, WindowLimit))
	}
	return w.first
}

// Credited reports whether the server has granted anything in this epoch.
func (w *Window) Credited() bool { return w.state == credited }

// quietAt is the instant from which a server whose window is used up is said to
// be silent: its answers take so long that they cannot be relied on to carry the
// demand there and credits back. Streams may take for ever. A server that says its
// objective answers others within it, so nothing came of them; Revive alone is many
// objectives where leases are long. Of one that has answered none, it is when its first requests have taken firstPatience.
func (w *Window) quietAt() mono.Time {
	switch w.state {
	case plain:
		return mono.Never
	case unknown:
		return w.heardAt.Add(firstPatience)
	}
	patience := w.grant.Revive
	if o := w.grant.Objective; o > 0 {
		patience = min(patience, o)
	}
	return w.heardAt.Add(patience)
}

// UnaskedAt is the instant at which one request may be sent without a credit,
// because the client may have missed a grant, or has no way to ask for one.
func (w *Window) UnaskedAt() mono.Time {
	switch {
	case w.outstanding == 0:
		return w.reviveAt
	case w.state == credited:
		return w.heardAt.Add(silence * w.grant.Revive)
	}
	return w.heardAt.Add(firstSilence)
}

// onGrant takes g if it is the newest and reports whether it was. A grant of
// another epoch starts anew: the server restarted.
func (w *Window) onGrant(now mono.Time, g wire.Grant) bool {
	if w.state == credited && g.Epoch == w.grant.Epoch && !g.Newer(w.grant) {
		return false
	}
	if w.state != credited || g.Epoch != w.grant.Epoch {
		w.told = 0 // what it was told before, if anything, it has forgotten
	}
	g.Revive = max(g.Revive, leastRevive)
	w.state, w.grant, w.heardAt = credited, g, now
	w.reviveAt = mono.Never
	if g.Window > 0 {
		w.told = 0 // the next request says it again
	} else {
		w.reviveAt = now.Add(g.Revive)
	}
	return true
}
