package telemetry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A Timer has in each bucket, classic and native, what a histogram of Prometheus has.
func TestTimerIsAHistogramOfPrometheus(t *testing.T) {
	reference := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "reference", Buckets: secondsBuckets(), NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: math.Exp2(leastOctave),
	})
	timer, err := newTelemetry(t).Timer("spillgate.test", "Of the test.", "gate")
	if err != nil {
		t.Fatal(err)
	}
	times, err := timer.With("orders")
	if err != nil {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewPCG(1, 2))
	values := []time.Duration{0, 1, 953, 954, 955, time.Hour, 30 * time.Hour}
	for _, b := range buckets {
		d := time.Duration(math.Round(b * float64(time.Second)))
		values = append(values, d-1, d, d+1)
	}
	for range 20_000 {
		values = append(values, time.Duration(math.Exp(chance.Float64()*32))) // up to a day
	}
	for _, d := range values {
		reference.Observe(d.Seconds())
		times.Observe(d)
	}
	var want, got dto.Metric
	if err := reference.Write(&want); err != nil {
		t.Fatal(err)
	}
	if err := (collected{timer.desc, times}).Write(&got); err != nil {
		t.Fatal(err)
	}
	w, g := want.Histogram, got.Histogram
	if g.GetSampleCount() != w.GetSampleCount() || math.Abs(g.GetSampleSum()-w.GetSampleSum()) > 1e-9*w.GetSampleSum() || g.GetZeroCount() != w.GetZeroCount() || g.GetSchema() != w.GetSchema() {
		t.Errorf("count %d, sum %v, zeros %d, schema %d; expected %d, %v, %d, %d", g.GetSampleCount(), g.GetSampleSum(), g.GetZeroCount(), g.GetSchema(),
			w.GetSampleCount(), w.GetSampleSum(), w.GetZeroCount(), w.GetSchema())
	}
	for i, b := range w.GetBucket() {
		if have := g.GetBucket()[i]; have.GetUpperBound() != b.GetUpperBound() || have.GetCumulativeCount() != b.GetCumulativeCount() {
			t.Errorf("classic bucket %v has %d, expected %d", b.GetUpperBound(), have.GetCumulativeCount(), b.GetCumulativeCount())
		}
	}
	if !slices.Equal(nativeCounts(g), nativeCounts(w)) {
		t.Errorf("native buckets\n%v, expected\n%v", nativeCounts(g), nativeCounts(w))
	}
}

// nativeCounts are the counts of the native buckets that have some, with their indices.
func nativeCounts(h *dto.Histogram) (all [][2]int64) {
	index, i, n := int64(0), 0, int64(0)
	for _, s := range h.GetPositiveSpan() {
		index += int64(s.GetOffset())
		for range s.GetLength() {
			n += h.GetPositiveDelta()[i]
			if n != 0 {
				all = append(all, [2]int64{index, n})
			}
			index, i = index+1, i+1
		}
	}
	return all
}

// Labels are those of the timer.
func TestTimerWith(t *testing.T) {
	telemetry := newTelemetry(t)
	timer, err := telemetry.Timer("spillgate.test", "Of the test.", "gate", "workflow")
	if err != nil {
		t.Fatal(err)
	}
	same, err := telemetry.Timer("spillgate.test", "Of the test.", "gate", "workflow")
	if err != nil || same != timer {
		t.Errorf("the same timer again: %p, %v, expected %p", same, err, timer)
	}
	a, err1 := timer.With("orders", "checkout")
	b, err2 := timer.With("orders", "checkout")
	if err1 != nil || err2 != nil || a != b {
		t.Errorf("%p %v, %p %v; expected the same twice", a, err1, b, err2)
	}
	for _, wrong := range [][]string{{"orders"}, {"orders", "\xff"}, {"a", "b", "c"}} {
		if _, err := timer.With(wrong...); err == nil {
			t.Errorf("labels %q were taken", wrong)
		}
	}
}
