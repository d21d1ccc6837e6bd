package signal

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// subWindows is how many parts an Extreme's window has: its memory is the
// window, to an eighth.
const subWindows = 8

// Extreme is the smallest or the largest sample of the last window of time. It
// forgets in steps of an eighth of the window, so a sample counts for between
// seven eighths of the window and the whole.
type Extreme struct {
	sign  float64 // +1: largest, −1: smallest
	width mono.Time
	best  [subWindows]float64 // sign × sample, −Inf if none
	turn  mono.Time           // number of the current sub-window
	begun bool
}

// NewMin returns the smallest sample over a window, at least 8 ns long.
func NewMin(window time.Duration) Extreme { return newExtreme(window, -1) }

// NewMax returns the largest sample over a window, at least 8 ns long.
func NewMax(window time.Duration) Extreme { return newExtreme(window, 1) }

func newExtreme(window time.Duration, sign float64) Extreme {
	e := Extreme{sign: sign, width: mono.Time(max(window/subWindows, 1))}
	e.Reset()
	return e
}

// Reset forgets every sample.
func (e *Extreme) Reset() {
	for i := range e.best {
		e.best[i] = math.Inf(-1)
	}
}

// Add takes a sample at now. An instant before an earlier one counts as that
// one.
func (e *Extreme) Add(now mono.Time, x float64) {
	e.forget(now)
	if i := e.slot(e.turn); e.sign*x > e.best[i] {
		e.best[i] = e.sign * x
	}
}

// At returns the extreme of the window that ends at now, and false if it holds
// no sample.
func (e *Extreme) At(now mono.Time) (x float64, ok bool) {
	e.forget(now)
	best := math.Inf(-1)
	for _, b := range e.best {
		best = max(best, b)
	}
	if math.IsInf(best, -1) {
		return 0, false
	}
	return e.sign * best, true
}

// forget empties the sub-windows that now has passed.
func (e *Extreme) forget(now mono.Time) {
	turn := now / e.width
	if now < 0 {
		turn-- // round down, also before the origin
	}
	if !e.begun {
		e.turn, e.begun = turn, true
	}
	for range min(turn-e.turn, subWindows) {
		e.turn++
		e.best[e.slot(e.turn)] = math.Inf(-1)
	}
	e.turn = max(e.turn, turn)
}

func (e *Extreme) slot(turn mono.Time) int {
	return int((turn%subWindows + subWindows) % subWindows)
}
