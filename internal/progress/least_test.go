package progress

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLeast: constant times are known exactly; of exponential ones, about one in
// five is shorter than the least; and it follows when they change.
func TestLeast(t *testing.T) {
	totals, err := NewTotals(TotalsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if totals.Least("w") != 0 {
		t.Error("something is known of nothing")
	}
	for range 100 {
		totals.OnDone(0, "w", time.Second, 0)
	}
	if got := totals.Least("w"); got != time.Second {
		t.Errorf("of constant times of 1s it is %v", got)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	shorter, n := 0, 20_000
	for i := range n {
		d := time.Duration(rng.ExpFloat64() * float64(10*time.Millisecond))
		if i > n/10 && d < totals.Least("w") {
			shorter++
		}
		totals.OnDone(0, "w", d, 0)
	}
	if share := float64(shorter) / float64(n) / 0.9; share < 0.15 || share > 0.25 {
		t.Errorf("%.3f of exponential times are shorter, expected about 0.2", share)
	}
	for range 2000 {
		totals.OnDone(0, "w", time.Second, 0)
	}
	if got := totals.Least("w"); got < 990*time.Millisecond || got > time.Second {
		t.Errorf("after a change to 1s it is %v", got)
	}
	for range 10 {
		totals.OnDone(0, "w", 0, 0)
	}
	totals.OnDone(0, "w", -time.Second, 0)
}
