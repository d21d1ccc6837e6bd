package signal

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// subWindows is how many parts a Least's window has: its memory is the window,
// to an eighth.
const subWindows = 8

// Least is the smallest sample of the last window of time. It forgets in steps
// of an eighth of the window, so a sample counts for between seven eighths of
// the window and the whole.
type Least struct {
	width mono.Time
	best  [subWindows]float64 // +Inf if none
	turn  mono.Time           // number of the current sub-window
	begun bool
}

// NewLeast returns the smallest sample over a window, at least 8 ns long.
func NewLeast(window time.Duration) Least {
	l := Least{width: mono.Time(max(window/subWindows, 1))}
	l.Reset()
	return l
}

// Reset forgets every sample.
func (l *Least) Reset() {
	for i := range l.best {
		l.best[i] = math.Inf(1)
	}
}

// Add takes a sample at now. An instant before an earlier one counts as that
// one.
func (l *Least) Add(now mono.Time, x float64) {
	l.forget(now)
	if i := l.slot(l.turn); x < l.best[i] {
		l.best[i] = x
	}
}

// At returns the smallest sample of the window that ends at now, and false if
// the window holds no sample.
func (l *Least) At(now mono.Time) (x float64, ok bool) {
	l.forget(now)
	best := math.Inf(1)
	for _, b := range l.best {
		best = min(best, b)
	}
	if math.IsInf(best, 1) {
		return 0, false
	}
	return best, true
}

// forget empties the sub-windows that now has passed.
func (l *Least) forget(now mono.Time) {
	turn := now / l.width
	if now < 0 {
		turn-- // round down, also before the origin
	}
	if !l.begun {
		l.turn, l.begun = turn, true
	}
	for range min(turn-l.turn, subWindows) {
		l.turn++
		l.best[l.slot(l.turn)] = math.Inf(1)
	}
	l.turn = max(l.turn, turn)
}

func (l *Least) slot(turn mono.Time) int {
	return int((turn%subWindows + subWindows) % subWindows)
}
