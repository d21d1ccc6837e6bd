package credit

import (
	"github.com/spillgate/spillgate/mono"
	"github.com/spillgate/spillgate/wire"
)

// firstFlight is how many requests a client sends to a server that has not
// granted anything yet. A server with a Pool answers the first with a grant; one
// without shows by its first reply that it has none.
const firstFlight = 8

// Window is a client's side of its account at one server: what it may have
// outstanding there. A Window belongs to one Wallet and is not safe for
// concurrent use.
type Window struct {
	state       windowState
	grant       wire.Grant
	outstanding int
	reviveAt    mono.Time
	closed      bool
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

// Limit returns the most requests that may be outstanding now.
func (w *Window) Limit() int {
	switch w.state {
	case plain:
		return WindowLimit
	case credited:
		return int(min(w.grant.Window, WindowLimit))
	}
	return firstFlight
}

// Credited reports whether the server has granted anything in this epoch.
func (w *Window) Credited() bool { return w.state == credited }

// free returns how many requests may be sent at now.
func (w *Window) free(now mono.Time) int {
	if w.closed {
		return 0
	}
	if n := w.Limit() - w.outstanding; n > 0 {
		return n
	}
	if w.outstanding == 0 && now >= w.reviveAt {
		return 1
	}
	return 0
}

// onGrant takes g if it is the newest and reports whether it was. A grant of
// another epoch starts anew: the server restarted.
func (w *Window) onGrant(now mono.Time, g wire.Grant) bool {
	if w.state == credited && g.Epoch == w.grant.Epoch && !g.Newer(w.grant) {
		return false
	}
	w.state, w.grant = credited, g
	w.reviveAt = mono.Never
	if g.Window > 0 {
		w.told = 0 // the next request says it again
	} else {
		w.reviveAt = now.Add(g.Revive)
	}
	return true
}
