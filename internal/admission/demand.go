package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// demand is what arrives at a gate, and how much of it is too much.
type demand struct {
	seen    mono.Time // of the last arrival
	any     bool      // something has arrived, at seen
	between float64   // ns between two arrivals, smoothed
	sunk    float64   // ns of work that requests have had before they come here, smoothed
	refused float64   // share of the arrivals that would have waited too long, smoothed
	idle    mono.Time // when a slot was free last
}

const (
	// arrivalMemory is over how many arrivals the time between them, and the share of
	// those refused, is smoothed.
	arrivalMemory = 64
	// forgotten is where a mean that fades away becomes 0: the processor takes a hundred
	// times as long for numbers that are nearly too small to be written down.
	forgotten = 1e-30
)

// arrive takes a request that other services have worked on for a time, done.
func (d *demand) arrive(now mono.Time, done, objective time.Duration) {
	if d.any {
		apart := float64(min(max(now.Sub(d.seen), 1), objective))
		if d.between == 0 {
			d.between = apart
		}
		d.between += (apart - d.between) / arrivalMemory
	}
	d.seen, d.any = now, true
	if done > 0 || d.sunk > 0 {
		d.sunk = faded(d.sunk + (float64(max(done, 0))-d.sunk)/16)
	}
}

// pass counts a first attempt, which is no sign of overload yet.
func (d *demand) pass() { d.refused = faded(d.refused - d.refused/arrivalMemory) }

// refuse counts that the wait was too long for a request.
func (d *demand) refuse() { d.refused += 1.0 / arrivalMemory }

func faded(mean float64) float64 {
	if mean < forgotten {
		return 0
	}
	return mean
}
