package slots

import (
	"testing"
	"time"
)

// A part of the requests is late however few run, and all of them take turns, so fewer do as much: a step downwards ends
// where there are no fewer. While it goes on the credits keep their number.
func TestAStepEndsAtTheFewest(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	from := point{concurrency: 2, throughput: 1e-7, residence: 2e7, took: 2e7, samples: 200, limit: 2, tardy: 0.15, overran: 1.2e8}
	l.settleAt(2, from)
	l.trial, l.limit = trial{kind: climbDown, from: from, before: from}, 1
	p := from
	p.concurrency, p.limit, p.residence = 1, 1, 1e7
	if l.judgeClimb(p); l.trial.kind != noTrial {
		t.Errorf("the step goes on at %v, of %d at least", l.limit, l.fewest())
	}
}
