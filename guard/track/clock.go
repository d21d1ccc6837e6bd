package track

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// setForward is by how much more than this machine's a server's clock must have gone for it to have been set: one that is only steered gains less in
// the longest time between two looks.
const setForward = 200 * time.Millisecond

// Clock notices that a server's clock is set forward, as when a virtual machine goes on after a pause. All that had begun before would look
// older by as much, and a task that has just begun old enough to be cancelled. Of what began before, Now tells when that is by the clock as it goes since. A clock
// that is set back makes tasks look younger, and needs no notice. The zero value is ready.
type Clock struct {
	from        mono.Time     // when the look before began
	least, most time.Duration // by how much the clock was ahead of this machine's then
	known       bool
	set         time.Time     // when it was set last, by itself
	by          time.Duration // at most
}

// Look enters what the clock showed at an instant between two of this machine's.
func (c *Clock) Look(shown time.Time, from, to mono.Time) {
	least, most := time.Duration(shown.UnixNano()-int64(to)), time.Duration(shown.UnixNano()-int64(from))
	if c.known && least-c.most > setForward {
		c.set, c.by = shown.Add(-to.Sub(c.from)), most-c.least
	}
	c.from, c.least, c.most, c.known = from, least, most, true
}

// Now returns what the clock, as it goes now, would have shown when it showed t.
func (c *Clock) Now(t time.Time) time.Time {
	if t.Before(c.set) {
		return t.Add(c.by)
	}
	return t
}
