package topics

import (
	"context"
	"math"
	"reflect"
	"testing"

	"github.com/spillgate/spillgate/internal/placement"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The quick forms of some experiments reach their bars, and a seed says all.
func TestQuickForms(t *testing.T) {
	if testing.Short() {
		t.Skip("plays some million messages")
	}
	for _, e := range []experiment.Experiment{penalty(), concentration(), adaptation()} {
		o := experiment.Options{Seed: 1, Quick: true}
		r, err := e.Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range r.Short() {
			t.Errorf("%s: %v", e.Name, b)
		}
		if again, err := e.Run(context.Background(), o); err != nil || !reflect.DeepEqual(r.Bars, again.Bars) {
			t.Errorf("%s: another result of the same seed (%v)", e.Name, err)
		}
	}
}

// Proposition 1 on what publishers send: the sum of waits behind the parts is at least that behind the whole.
func TestSplittingNeverHelps(t *testing.T) {
	for _, load := range []traffic{{publishers: 100, rate: 10, batch: 1}, together(25, false, 0), together(25, true, 4e-3)} {
		batches := load.play(chance(1, 2), 20)
		bucket := load.bucket(chance(1, 3), nil)
		bucket.Burst /= 4 // so that much waits
		whole, parts := shaper{Bucket: bucket}, make([]shaper, 3)
		for i := range parts {
			parts[i].Bucket = bucket.Split(1. / 3)
		}
		one, many := 0.0, 0.0
		for _, b := range batches {
			for range load.batch {
				one += whole.pass(b.at)
				many += parts[b.publisher%3].pass(b.at)
			}
			if many < one*(1-1e-9) {
				t.Fatalf("%+v: %v behind the parts, %v behind the whole", load, many, one)
			}
		}
		if one == 0 {
			t.Errorf("%+v: nothing waited", load)
		}
	}
}

// The bucket of Poisson groups lets all but its share through at once, over a long time.
func TestBucketOfGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("plays some million messages")
	}
	load := traffic{publishers: 100, rate: 10, batch: 1}
	s := shaper{Bucket: load.bucket(chance(1, 3), nil)}
	waited, n := 0.0, 0.0
	for _, b := range load.play(chance(1, 2), 4000) {
		if n++; s.pass(b.at) > 0 {
			waited++
		}
	}
	if share := waited / n; math.Abs(share-late) > 0.6*late || share > placement.P99 {
		t.Errorf("%.4f wait, expected %.4f or a little less", share, late)
	}
}
