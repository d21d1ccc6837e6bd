package share

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func seconds(x float64) time.Duration { return time.Duration(x * 1e9) }

// observe draws n callers with a patience, who are served after an exponential
// wait, and tells the fitter which came first.
func observe(f *fitter, p Patience, wait float64, n int, rng *rand.Rand) (left int) {
	for range n {
		b := p[0]
		if len(p) > 1 && rng.Float64() >= p[0].Weight {
			b = p[1]
		}
		patience, served := rng.ExpFloat64()/b.Rate, rng.ExpFloat64()*wait
		if patience < served {
			f.Left(seconds(patience))
			left++
		} else {
			f.Stayed(seconds(served))
		}
	}
	return left
}

// TestFitFindsTwoKinds: the mixture comes back although most callers are served
// before their patience ends.
func TestFitFindsTwoKinds(t *testing.T) {
	for _, wait := range []float64{0.5, 2, 10} {
		var f fitter
		want := Patience{{0.7, 0.05}, {0.3, 1.5}}
		left := observe(&f, want, wait, 50_000, rand.New(rand.NewPCG(1, 2)))
		for range 60 {
			f.Update()
		}
		got := f.Patience()
		if err := got.Check(); err != nil {
			t.Fatal(err)
		}
		// What decisions rest on is the curve, up to times that were seen.
		for _, x := range []float64{0.2 * wait, wait, 3 * wait} {
			if a, b := got.Outlasts(x), want.Outlasts(x); math.Abs(a-b) > 0.03 {
				t.Errorf("wait %v, %d left: %.3f outlast %v s, want %.3f (fit %.3f)", wait, left, a, x, b, got)
			}
		}
		if a, b := got.Lost(wait), want.Lost(wait); math.Abs(a-b) > 0.02 {
			t.Errorf("wait %v: %.3f lost, want %.3f", wait, a, b)
		}
	}
}

// TestFitWithoutCensoringWouldBeWrong: the mean time of those who gave up says how
// fast the server was, not how patient callers are.
func TestFitWithoutCensoringWouldBeWrong(t *testing.T) {
	var f fitter
	left := observe(&f, Patience{{1, 0.1}}, 0.5, 50_000, rand.New(rand.NewPCG(3, 4)))
	for range 30 {
		f.Update()
	}
	naive := 0.0
	for _, b := range f.bins {
		if b.left+b.stayed > 0 {
			naive += b.left * b.time / (b.left + b.stayed)
		}
	}
	naive = float64(left) / naive
	p := f.Patience()
	rate := 0.0
	for _, b := range p {
		rate += b.Weight * b.Rate
	}
	if !within(rate, 0.1, 0.1) || naive < 1 {
		t.Errorf("rate %v, want 0.1; from those who left alone %v, want over ten times that", rate, naive)
	}
}

func TestFitNeedsEvidence(t *testing.T) {
	var f fitter
	f.Update()
	if p := f.Patience(); p != nil {
		t.Errorf("without observations: %v, want nil", p)
	}
	for range 1000 {
		f.Stayed(time.Second)
	}
	f.Update()
	if p := f.Patience(); p != nil {
		t.Errorf("nobody left: %v, want nil", p)
	}
	for range 10 {
		f.Left(time.Second)
	}
	f.Update()
	if p := f.Patience(); len(p) != 1 || !within(p[0].Rate, 10.0/1010, 1e-9) {
		t.Errorf("ten left in 1,010 s: %v, want one branch of 0.0099", p)
	}
}

// TestFitForgets: callers who became impatient are seen as such.
func TestFitForgets(t *testing.T) {
	var f fitter
	rng := rand.New(rand.NewPCG(5, 6))
	observe(&f, Patience{{1, 0.01}}, 1, 2*fitMemory, rng)
	f.Update()
	observe(&f, Patience{{1, 2}}, 1, 10*fitMemory, rng)
	for range 20 {
		f.Update()
	}
	if got, want := f.Patience().Outlasts(0.5), math.Exp(-1); math.Abs(got-want) > 0.05 {
		t.Errorf("%.3f outlast half a second, want %.3f", got, want)
	}
}

// TestFitProperties: whatever is observed, the fit is a patience.
func TestFitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fitter
		for range rapid.IntRange(0, 30).Draw(t, "groups") {
			wait := time.Duration(rapid.Int64().Draw(t, "wait") >> rapid.IntRange(0, 60).Draw(t, "shift"))
			left := rapid.Bool().Draw(t, "left")
			for range rapid.IntRange(1, 40).Draw(t, "times") {
				f.add(wait, left)
			}
			if rapid.Bool().Draw(t, "update") {
				f.Update()
			}
			p := f.Patience()
			if err := p.Check(); err != nil {
				t.Fatalf("%v: %v", p, err)
			}
		}
	})
}

func BenchmarkFitUpdate(b *testing.B) {
	var f fitter
	observe(&f, Patience{{0.7, 0.05}, {0.3, 1.5}}, 2, 10_000, rand.New(rand.NewPCG(1, 2)))
	b.ReportAllocs()
	for b.Loop() {
		f.Update()
	}
}
