package admission

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// learned returns what is known after n requests of a kind at a server with so many
// slots, offered twice what it can do, all waits being as promised.
func learned(objective time.Duration, slots, n int, service func() time.Duration) *worth {
	known := newWorth(objective)
	w := &known
	total := 0.0
	var times []float64
	for range n {
		times = append(times, float64(service()))
		total += times[len(times)-1]
	}
	for _, s := range times {
		w.add(s / (total / float64(n)))
		w.kept(0, 1)
	}
	w.refresh(steady(slots, total/float64(n)/float64(slots)), 2, 3, overload{1, 1})
	return w
}

// steady is the pace of so many slots whose departures are gap ns apart.
func steady(n int, gap float64) *pace { return &pace{gap: mean{value: gap}, slots: n, scale: 1} }

// TestWorthOfConstantService: a wait is worth while as long as the service fits in
// behind it, and no longer; there is no doubt about it where departures are regular.
func TestWorthOfConstantService(t *testing.T) {
	const objective = 100 * time.Millisecond
	for _, percent := range []time.Duration{10, 33, 50, 67, 75} {
		service := objective * percent / 100
		w := learned(objective, 8, 1000, func() time.Duration { return service })
		left := objective - service
		if gap := service / 8; w.strict > left || w.strict < left*6/10-gap {
			t.Errorf("service of %v: a wait of %v is worth while, want up to %v of %v", service, w.strict, left, objective)
		}
		if w.need < service*9/10 || w.need > service*11/10 {
			t.Errorf("service of %v: %v must be left at the start", service, w.need)
		}
	}
}

// TestWorthOfExponentialService: the longer the service, the less is worth waiting, down
// to a few departures: K places of which the last has lost what the others gain.
func TestWorthOfExponentialService(t *testing.T) {
	const objective = 100 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 0))
	before := math.Inf(1)
	for _, percent := range []time.Duration{5, 10, 20, 40, 75} {
		service := objective * percent / 100
		w := learned(objective, 8, 5000, func() time.Duration { return time.Duration(rng.ExpFloat64() * float64(service)) })
		places := math.Floor(float64(w.strict) / (float64(service) / 8))
		if places > before {
			t.Errorf("service of %v: %v places are worth while, and %v with less service", service, places, before)
		}
		before = places
		// The share that ends in time is known to a few hundredths.
		for _, wait := range []time.Duration{0, objective / 2} {
			want := 1 - math.Exp(-float64(objective-wait)/float64(service))
			if got := w.within(float64(objective - wait)); math.Abs(got-want) > 0.08 {
				t.Errorf("service of %v: %.3f end within %v, want %.3f", service, got, objective-wait, want)
			}
		}
	}
}

// TestWorthOfTwoKinds: where one in five takes most of the objective, a queue is short
// enough for it, because that gains more than what idles.
func TestWorthOfTwoKinds(t *testing.T) {
	const objective = 200 * time.Millisecond
	i := 0
	w := learned(objective, 100, 5000, func() time.Duration {
		if i++; i%5 == 0 {
			return 160 * time.Millisecond
		}
		return 10 * time.Millisecond
	})
	if w.strict > 40*time.Millisecond {
		t.Errorf("a wait of %v is worth while, want at most 40ms", w.strict)
	}
}

// TestWorthOfLessTime: with less time left less is worth waiting, and nothing once the
// service does not fit in.
func TestWorthOfLessTime(t *testing.T) {
	const objective = 100 * time.Millisecond
	w := learned(objective, 4, 1000, func() time.Duration { return 20 * time.Millisecond })
	before := objective
	for budget := objective; budget > 0; budget -= 5 * time.Millisecond {
		got := w.worthwhile(budget, 1)
		if got > before || got < 0 {
			t.Fatalf("with %v left a wait of %v is worth while, and %v with more", budget, got, before)
		}
		before = got
		if budget < 20*time.Millisecond && got > 0 {
			t.Errorf("with %v left a wait of %v is worth while, and the service takes 20ms", budget, got)
		}
	}
}

func TestNothingKnownRefusesNothing(t *testing.T) {
	w := newWorth(time.Second)
	w.refresh(steady(10, 0), 0, 3, overload{1, 1})
	if w.wait != time.Second || w.need != 0 || w.hope != 0 {
		t.Errorf("wait %v, need %v, hope %v before anything is known; want 1s, 0s, 0s", w.wait, w.need, w.hope)
	}
	// Loads and paces that no server has must not leave nonsense.
	for _, gap := range []float64{1, 1e9, 1e18} {
		for _, load := range []float64{1e-9, 1, 1e9} {
			w := learned(time.Second, 1, 100, func() time.Duration { return time.Millisecond })
			w.refresh(steady(1, gap), load, 3, overload{0.5, 0.5})
			if w.wait < 0 || w.strict < 0 || w.need < 0 {
				t.Errorf("gap %v, load %v: wait %v, strict %v, need %v", gap, load, w.wait, w.strict, w.need)
			}
		}
	}
}

// TestMean: a mean is steady while values are random, and follows at once when the
// server becomes ten times slower.
func TestMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var m mean
	far := 0
	for i := range 10_000 {
		m.add(rng.ExpFloat64())
		if i > 500 && (m.value < 0.7 || m.value > 1.4) {
			far++ // after a few that all were small by chance
		}
	}
	if far > 300 {
		t.Errorf("%d of 10,000 times far from 1", far)
	}
	for range 10 {
		m.add(10 * rng.ExpFloat64())
	}
	if m.value < 3 {
		t.Errorf("after ten values ten times as large: %v", m.value)
	}
}

// TestBucketOf: a residence is in the last bucket that begins no later than it.
func TestBucketOf(t *testing.T) {
	w := newWorth(time.Second)
	check := func(x float64) {
		want := 0
		for i := range buckets {
			if w.edges[i] <= x {
				want = i
			}
		}
		if got := w.bucketOf(x); got != want {
			t.Errorf("%v is in bucket %d, want %d", x, got, want)
		}
	}
	for _, edge := range w.edges {
		check(math.Nextafter(edge, 0))
		check(edge)
		check(math.Nextafter(edge, math.Inf(1)))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		check(math.Exp2(rng.Float64()*12 - 6))
	}
	check(0)
	check(math.Inf(1))
	check(math.MaxFloat64)
	check(math.SmallestNonzeroFloat64)
}

// TestForgottenBucketsTellNothing: a residence that was seen so long ago that it does not count any more is
// not the shortest one.
func TestForgottenBucketsTellNothing(t *testing.T) {
	w := newWorth(time.Second)
	w.add(least)
	for range 1100 * shapeMemory {
		w.add(1)
	}
	if w.shape[w.low] != 0 {
		t.Fatalf("%v of the first residence are left, want it to be forgotten", w.shape[w.low])
	}
	w.refresh(steady(1, 1e6), 1, 3, overload{0, 0})
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		if got := w.quantile(share); got < 950*time.Microsecond || got > 1100*time.Microsecond {
			t.Errorf("%v end within %v, want about 1ms", share, got)
		}
	}
}
