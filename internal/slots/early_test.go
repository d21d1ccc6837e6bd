package slots

import (
	"testing"
	"time"
)

// TestTrialGoesDownByHalf: a trial goes down by a half, whatever the ranks say, also where processors are short: requests
// that mostly wait for something else do a sixth with one running, and the idle processor ended the shortage.
func TestTrialGoesDownByHalf(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, useful := range []int{0, 3} {
		l.SetUseful(useful)
		for _, top := range []float64{20, 40, 62} {
			l.trial.from = point{limit: 66, order: order{count: 100, sum: 2000, top: top}}
			if got := l.lower(point{concurrency: 66}); got != 33 {
				t.Errorf("with ranks up to %v of 66 and %d processors that are short a trial goes down to %v, want 33", top, useful, got)
			}
		}
	}
}

// TestAlike: a quarter as many that take half as long lie between a queue that is gone and none.
func TestAlike(t *testing.T) {
	var l Limit
	l.vain.from = point{concurrency: 40, took: 100}
	for _, c := range []struct {
		concurrency, took float64
		want              bool
	}{{10, 55, true}, {10, 45, false}, {20, 75, true}, {20, 65, false}} {
		if got := l.takeAsLong(point{concurrency: c.concurrency, took: c.took}); got != c.want {
			t.Errorf("%v instead of 40 that take %v instead of 100 take as long: %v, want %v", c.concurrency, c.took, got, c.want)
		}
	}
}

// TestATrialThatTellsNothingTakesNothing: the limit is what it was, also if the slots were not all taken when the trial began.
func TestATrialThatTellsNothingTakesNothing(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.limit = 20
	l.knee.rate = 1e-6
	l.try(point{concurrency: 12, throughput: 1e-6, residence: 12e6, samples: 64, limit: 20, bound: true}, fewer)
	if l.voidFewer(); l.Limit() != 20 {
		t.Errorf("20 slots before a trial that tells nothing, and %d after it", l.Limit())
	}
}

// TestRanksOfAFloodAreNotKnown: 64 were let in where 8 do the most because requests hold each other up. That 64 run is no
// sign that so many are served.
func TestRanksOfAFloodAreNotKnown(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.reach.add(64)
	l.settleAt(8, point{limit: 8, throughput: 1e-6, residence: 1e6, samples: 64})
	if n := l.known(); n != 8 {
		t.Errorf("%v are known to be served at once, want 8", n)
	}
}
