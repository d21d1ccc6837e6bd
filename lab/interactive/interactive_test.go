package interactive

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/lab/experiment"
)

// TestPrinted: the formulas give the tables, and a wrong digit is seen.
func TestPrinted(t *testing.T) {
	for _, p := range []*printed{queues(), ways(), allocations()} {
		if p.different > 0 {
			t.Errorf("%s: %d values differ", p.table.Title, p.different)
		}
	}
	p := newPrinted("", "")
	p.add("", "", 0.12345, "0.1234")
	p.add("", "", 0.12345, "0.1235")
	p.add("", "", math.NaN(), "1")
	if p.different != 2 {
		t.Errorf("%d of two wrong values were seen", p.different)
	}
}

// TestEqualizing: static shares that make both classes as fast as each other are
// those of the formula where service times are alike.
func TestEqualizing(t *testing.T) {
	for _, x := range tabulated {
		s := oracle(x.chains, x.singles)
		want, _, _ := s.load().Separate()
		if got := s.equalizing(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v, %v: %v, want %v", x.chains, x.singles, got, want)
		}
	}
	s := oracle(90, 90)
	if got := s.equalizing(); !(got > 0 && got < 1) {
		t.Errorf("overloaded: %v", got)
	}
}

// TestSettling: a path that goes past its end and comes back.
func TestSettling(t *testing.T) {
	w := []float64{0.5, 0.5, 0.7, 0.9, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6}
	start, settled, over, final := Settling(w, 2, 12)
	if start != 0.5 || settled != 3 || math.Abs(over-0.5) > 1e-9 || math.Abs(final-0.6) > 1e-9 {
		t.Errorf("from %v to %v, settled after %v, %v past", start, final, settled, over)
	}
	down := []float64{0.9, 0.9, 0.5, 0.6, 0.6, 0.6}
	if _, _, over, _ := Settling(down, 2, 6); math.Abs(over-(1-0.5/0.6)) > 1e-9 {
		t.Errorf("downwards: %v past", over)
	}
}

// TestOrders runs all orders for a short time at one load: the law holds for those
// that never idle and not for static shares, ours learns who is who, and a second
// run is the same.
func TestOrders(t *testing.T) {
	s := oracle(20, 60)
	s.name = "20, 60"
	run := func() []outcome {
		out, err := compare(context.Background(), experiment.Options{Seed: 5}, []setting{s}, orders(), 1, 30*time.Second, 430*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	out, again := run(), run()
	for k, by := range orders() {
		v := s.judge(&out[0], &out[k])
		if by.split != (v.beyond > 0.5) || !by.split && math.Abs(v.beyond) > 0.06 {
			t.Errorf("%s is %.3f beyond the law", by.name, v.beyond)
		}
		if out[k].chains.mean() != again[k].chains.mean() || out[k].singles.mean() != again[k].singles.mean() {
			t.Errorf("%s: the same seed gave %v and %v", by.name, out[k].chains.mean(), again[k].chains.mean())
		}
	}
	if v := s.judge(&out[0], &out[4]); v.gain < 0.3 || v.harm > 0.25 {
		t.Errorf("share: gain %.3f, harm %.3f", v.gain, v.harm)
	}
	var w worst
	w.see(&s, out)
	r := &experiment.Result{}
	w.bars(r, "here")
	if len(r.Bars) != 4 || w.allowing != 1 {
		t.Errorf("%d bars, %d loads that allow the gain", len(r.Bars), w.allowing)
	}
}
