package slots

import (
	"testing"
	"time"
)

// TestTrialWhereProcessorsAreShort: a trial goes down by a half, whatever the ranks say, and at once to the processors
// where these are short: three of them kept 52 to 94 requests, and a quarter of the answers were late.
func TestTrialWhereProcessorsAreShort(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for top, want := range map[float64]float64{20: 33, 40: 33, 62: 33} {
		l.trial.from = point{limit: 66, order: order{count: 100, sum: 2000, top: top}}
		if got := l.lower(point{concurrency: 66}); got != want {
			t.Errorf("with ranks up to %v of 66 a trial goes down to %v, want %v", top, got, want)
		}
	}
	l.SetUseful(3)
	if got := l.lower(point{concurrency: 66}); got != 3 {
		t.Errorf("where three processors are short a trial goes down to %v, want 3", got)
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
