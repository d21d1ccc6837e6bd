package slots

import (
	"testing"
	"time"
)

// TestLimitComesBackAfterATrial: a trial with more slots that nobody needed leaves the limit
// where it was before, not where the trial had it.
func TestLimitComesBackAfterATrial(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 10})
	if err != nil {
		t.Fatal(err)
	}
	const perRequest = float64(10 * time.Millisecond)
	from := point{concurrency: 10, throughput: 10 / perRequest, residence: perRequest, samples: 32, bound: true}
	l.knee.at, l.knee.rate, l.knee.alone, l.knee.service, l.knee.samples = 10, from.throughput, perRequest, perRequest, 32
	target := l.target()
	l.try(from, more)
	if float64(l.Limit()) <= from.concurrency {
		t.Fatalf("limit %d during the trial, want more than 10", l.Limit())
	}
	l.limit = 40 // as after several stages
	l.judge(point{concurrency: 8, throughput: 8 / perRequest, residence: 2 * perRequest, samples: 32})
	if l.trial.kind != noTrial || l.limit != max(target, from.concurrency) {
		t.Errorf("limit %v after the trial, want %v; trial %+v", l.limit, max(target, from.concurrency), l.trial)
	}
}
