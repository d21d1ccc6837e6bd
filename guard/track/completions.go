package track

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// steady is over how long completions are spread. Servers add up what their
// sessions did at most once a second each, so that a counter moves in leaps.
const steady = time.Second

// sure is how many sessions must usually get somewhere between two looks for none to be
// no chance: fewer than one look in twenty.
const sure = 3

// Completions turns a counter that moves in leaps into what ended between two
// looks: the mean rate of the last second, and nothing at once when sessions stop that
// were sure to get somewhere. The zero value is ready.
type Completions struct {
	points []point
	part   float64 // of a completion that was not told yet
}

type point struct {
	at       mono.Time
	total    uint64
	advanced uint64
}

// Add enters the counter's total at a look, and in how many sessions something
// ended since the look before, which is told at once. It returns the completions
// to report.
func (c *Completions) Add(at mono.Time, total, advanced uint64) uint64 {
	if n := len(c.points); n > 0 && (total < c.points[n-1].total || at <= c.points[n-1].at) {
		c.points, c.part = c.points[:0], 0 // the counter was reset
	}
	c.points = append(c.points, point{at, total, advanced})
	// The first point is the last one that is a whole second old.
	for len(c.points) > 2 && at.Sub(c.points[1].at) >= steady {
		c.points = c.points[:copy(c.points, c.points[1:])]
	}
	n := len(c.points)
	if n < 2 {
		return advanced
	}
	first, before := c.points[0], c.points[n-2]
	span := at.Sub(first.at).Seconds()
	rate := float64(total-first.total) / span
	usual := 0.0 // sessions in which something ended, per second
	for _, p := range c.points[1:] {
		usual += float64(p.advanced) / span
	}
	dt := at.Sub(before.at).Seconds()
	// Without any session that got somewhere, the counter counts the looking itself.
	if usual == 0 || advanced == 0 && usual*dt >= sure {
		rate = 0
	}
	// A counter that lags is no proof against what was seen to end.
	c.part += max(rate*dt, float64(advanced))
	whole := uint64(c.part)
	c.part -= float64(whole)
	return whole
}
