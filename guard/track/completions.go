package track

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// steady is over how long completions are spread. Servers add up what their
// sessions did at most once a second each, so that a counter moves in leaps.
const steady = time.Second

// sure is how many sessions must usually get somewhere in a time for none to be
// no chance: fewer than one such time in twenty.
const sure = 3

// lagging is how many times as long the rate is averaged as well, and the lower one counts: a
// session that goes idle keeps what it did to itself until it works again, so that a second in which
// many begin to work shows what was done in several.
const lagging = 3

// Completions turns a counter that moves in leaps into what ended between two
// looks: the mean rate of the last second, or of the last three if that is lower, and nothing at
// once when sessions stop that were sure to get somewhere. In the first second it tells only of sessions that were seen to get
// somewhere: what the counter adds then was done before (nine times as much as ended, where a load had just been and began again). The
// zero value is ready.
type Completions struct {
	points []point
	begun  mono.Time // when the first of all points was
	part   float64   // of a completion that was not told yet
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
	if len(c.points) == 0 {
		c.begun = at
	}
	if n := len(c.points); n > 0 && c.points[n-1].at.Sub(c.begun) < steady {
		c.points = c.points[:0]
	}
	c.points = append(c.points, point{at, total, advanced})
	c.points = c.points[:copy(c.points, c.points[c.since(at, lagging*steady):])]
	n := len(c.points)
	if n < 2 {
		return advanced
	}
	first := c.since(at, steady)
	rate := min(c.rate(first), c.rate(0))
	span := at.Sub(c.points[first].at).Seconds()
	usual := 0.0 // sessions in which something ended, per second
	for _, p := range c.points[first+1:] {
		usual += float64(p.advanced) / span
	}
	dt := at.Sub(c.points[n-2].at).Seconds()
	// Without any session that got somewhere, the counter counts the looking itself.
	if usual == 0 || usual*c.standing().Seconds() >= sure {
		rate = 0
	}
	// A counter that lags is no proof against what was seen to end.
	c.part += max(rate*dt, float64(advanced))
	whole := uint64(c.part)
	c.part -= float64(whole)
	return whole
}

// Known reports whether what Add returned last is all that ended.
func (c *Completions) Known() bool { return len(c.points) > 1 }

// since returns which point is the last that is as old as a span, or the first of all; never the
// newest.
func (c *Completions) since(at mono.Time, span time.Duration) int {
	i := 0
	for i+2 < len(c.points) && at.Sub(c.points[i+1].at) >= span {
		i++
	}
	return i
}

// standing returns for how long no session has got anywhere.
func (c *Completions) standing() time.Duration {
	i := len(c.points) - 1
	for i > 0 && c.points[i].advanced == 0 {
		i--
	}
	return c.points[len(c.points)-1].at.Sub(c.points[i].at)
}

// rate returns the mean rate since a point, per second.
func (c *Completions) rate(since int) float64 {
	first, last := c.points[since], c.points[len(c.points)-1]
	return float64(last.total-first.total) / last.at.Sub(first.at).Seconds()
}
