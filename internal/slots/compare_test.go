package slots

import "testing"

// TestCompareAcrossAChangeOfTheWork: two levels tell of a line, or refute one, only where their
// throughputs can be those of one server: fewer that run do less by their number at most, and not
// more.
func TestCompareAcrossAChangeOfTheWork(t *testing.T) {
	// 8 workers, first come, first served: the ranks are the same with 16 running and with 10.
	ranks := order{count: 400, sum: 400 * 4.5, top: 8}
	more := point{concurrency: 16, throughput: 800, samples: 400, order: ranks}
	for _, tt := range []struct {
		name       string
		throughput float64 // with 10 running
		was, want  bool
	}{
		{"the same: the others wait in line", 800, false, true},
		{"less, by no more than the number: there is no line", 560, true, false},
		{"a tenth, the work is slower: a line stays", 80, true, true},
		{"a tenth, the work is slower: no line is concluded", 80, false, false},
		{"ten times as much, the work is faster: no line is concluded", 8000, false, false},
	} {
		l, err := New(Config{Slack: 10})
		if err != nil {
			t.Fatal(err)
		}
		l.fifo = tt.was
		l.compare(more, point{concurrency: 10, throughput: tt.throughput, samples: 400, order: ranks})
		if l.fifo != tt.want {
			t.Errorf("%s: a line is %v, want %v", tt.name, l.fifo, tt.want)
		}
	}
}

// TestATrialAcrossASlowdownTellsNothing: half as many take as long as before, not because none
// waited, but because the work became slower meanwhile. As many run as before the trial, and the
// next one is near.
func TestATrialAcrossASlowdownTellsNothing(t *testing.T) {
	const millisecond = 1e6
	l, err := New(Config{Slack: 20 * millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.rate, l.alone, l.knee = 300.0/1e9, 10*millisecond, 12
	l.try(point{concurrency: 12, throughput: 300.0 / 1e9, residence: 40 * millisecond, samples: 64, limit: 12, bound: true}, -1)
	l.judge(point{concurrency: 6, throughput: 30.0 / 1e9, residence: 200 * millisecond, samples: 32, limit: 6, bound: true})
	if l.trial.dir != 0 || l.Limit() != 12 || l.knee != 12 {
		t.Errorf("the limit is %d, in a trial: %v, the knee %v; want 12, none and 12", l.Limit(), l.trial.dir != 0, l.knee)
	}
	if l.gap-l.untried > memory {
		t.Errorf("the next trial is %d windows away, want %d at most", l.gap-l.untried, memory)
	}
}
