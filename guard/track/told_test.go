package track

import (
	"math"
	"testing"
	"time"
)

// One completion in three writes. When most stop, the counter of all tells it a second late, that of the writes at once.
func TestTold(t *testing.T) {
	var told Told
	writes := uint64(1000)
	look := func(written, completed uint64) float64 {
		writes += written
		return told.Add(100*time.Millisecond, writes, completed)
	}
	for range 100 {
		look(10, 30)
	}
	for k := range 10 {
		if got := look(1, uint64(27-2*k)); math.Abs(got-3) > 0.5 {
			t.Errorf("look %d: %.1f have ended, expected about 3", k, got)
		}
	}
	if got := look(0, 0); got != 0 {
		t.Errorf("%.1f have ended although nothing was written", got)
	}
	told = Told{}
	for range 100 {
		if got := look(0, 30); got != 30 {
			t.Errorf("%.1f have ended where nothing writes, expected what the other counter says", got)
		}
	}
	told.Add(100*time.Millisecond, 5, 30) // the counter has begun anew
	if got := told.Add(100*time.Millisecond, 6, 30); got != 30 {
		t.Errorf("%.1f have ended, expected 30", got)
	}
}
