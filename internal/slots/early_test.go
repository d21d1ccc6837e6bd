package slots

import (
	"testing"
	"time"
)

// TestTrialWhereProcessorsAreShort: a trial goes no further down than the ranks reach, unless they reach
// nearly as far as what runs, as they do where requests share processors: hardly fewer would tell nothing.
// Three processors kept 52 to 94 requests for that, and a quarter of the answers were late.
func TestTrialWhereProcessorsAreShort(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for top, want := range map[float64]float64{20: 33, 40: 40, 62: 33} {
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

// TestTrialEndsWhereFewerTakeAsLong: eight requests that take as long as those in the whole line are
// enough; eight that take half of it are not, nor seven.
func TestTrialEndsWhereFewerTakeAsLong(t *testing.T) {
	for _, c := range []struct {
		done int
		took float64
		want bool
	}{{8, 100 * float64(time.Millisecond), true}, {8, 50 * float64(time.Millisecond), false}, {7, 100 * float64(time.Millisecond), false}} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.limit, l.knee.service = 32, 50*float64(time.Millisecond)
		l.trial = trial{kind: fewer, from: point{concurrency: 64, residence: 90 * float64(time.Millisecond)}}
		l.window.done, l.window.sum = c.done, float64(c.done)*c.took
		if got := l.enough(400 * float64(time.Millisecond)); got != c.want {
			t.Errorf("%d that took %v ns end the window: %v, want %v", c.done, c.took, got, c.want)
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
