package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// filled is the part of the slots that are in use, all of them while requests wait, averaged over some eight objectives. It
// tells an overload that goes on from bursts with pauses between them, which refuse as many while they last. In a burst, a
// longer queue is what keeps the server busy in the pause; in an overload it only makes every answer later. The
// zero filled has seen nothing.
type filled struct {
	part  float64
	held  float64 // the part since then
	since mono.Time
	known bool // since is; time may begin anywhere
}

const (
	// filledFor is over how many objectives the part is averaged. With 2 the goodput of callers who leave is 2 % less, with
	// 24 the same, where arrivals are those of a service for language models (Azure 2023, index of dispersion 160), five
	// kinds of service and three loads; shared processors in a sustained overload do 1 % more with 2 and 1 % less with 24.
	filledFor = 8
	// paused and going are the parts up to which there are pauses, and from which on there are none. If every refusal is
	// a sign of an overload, bursts of 2x in every other 100 ms lose 5 % of the goodput on average (13 services of other
	// people's kinds, objectives of 100 ms), and bursts of 100 ms in each second 2 % (157 random services). If none is,
	// sustained overloads lose 1 % (640 random services). With 0.8 and 0.95 a few connections that are the first of two
	// stages lose 2 %, with 0.5 and 0.8 the bursts 1 %. The share of the time in which all slots are taken is no better
	// sign: credits arrive in lumps, so slots are free now and then in any overload.
	paused, going = 0.75, 0.85
)

// pass takes the time up to now, and the part that is in use from now on.
func (f *filled) pass(now mono.Time, part float64, objective time.Duration) {
	if !f.known {
		f.since, f.known = now, true
	}
	if dt := float64(now.Sub(f.since)); dt > 0 {
		f.part += (f.held - f.part) * dt / (dt + filledFor*float64(objective))
		f.since = now
	}
	f.held = part
}

// sustained is 0 if there are pauses, and 1 if there are none.
func (f *filled) sustained() float64 {
	return max(0, min((f.part-paused)/(going-paused), 1))
}
