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
		l.line.confirmed = tt.was
		l.compare(more, point{concurrency: 10, throughput: tt.throughput, samples: 400, order: ranks})
		if l.line.confirmed != tt.want {
			t.Errorf("%s: a line is %v, want %v", tt.name, l.line.confirmed, tt.want)
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
	l.knee.rate, l.knee.alone, l.knee.at = 300.0/1e9, 10*millisecond, 12
	l.try(point{concurrency: 12, throughput: 300.0 / 1e9, residence: 40 * millisecond, samples: 64, limit: 12, bound: true}, fewer)
	l.judge(point{concurrency: 6, throughput: 30.0 / 1e9, residence: 200 * millisecond, samples: 32, limit: 6, bound: true})
	if l.trial.kind != noTrial || l.Limit() != 12 || l.knee.at != 12 {
		t.Errorf("the limit is %d, in a trial: %v, the knee %v; want 12, none and 12", l.Limit(), l.trial.kind != noTrial, l.knee.at)
	}
	if l.agenda.gap-l.agenda.untried > memory {
		t.Errorf("the next trial is %d windows away, want %d at most", l.agenda.gap-l.agenda.untried, memory)
	}
}

// TestATrialAcrossASlowdownOfFew: of eight requests chance makes the throughput half of what it was, but not
// the time that each takes twice as long. Without that, four that took longer than nine had were taken for
// nine without a queue (wild/random, world 303).
func TestATrialAcrossASlowdownOfFew(t *testing.T) {
	const millisecond = 1e6
	l, err := New(Config{Slack: 42 * millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.knee.rate, l.knee.alone = 21.1/1e9, 53*millisecond
	l.try(point{concurrency: 9.3, throughput: 21.1 / 1e9, residence: 421 * millisecond, samples: 32, limit: 10, bound: true}, fewer)
	l.judge(point{concurrency: 3.8, throughput: 4.9 / 1e9, residence: 784 * millisecond, took: 700 * millisecond, samples: 8, limit: 4, bound: true})
	if l.trial.kind != noTrial || l.knee.at != 0 || l.unqueued.n != 0 {
		t.Errorf("in a trial: %v, the knee %v, %v seen without a queue; want none, 0 and 0", l.trial.kind != noTrial, l.knee.at, l.unqueued.n)
	}
}

// TestARefutedLineTakesItsKneeAlong: a line had the knee as far as ranks reach. Once it is refuted what was known
// before counts again, unless requests take no longer by that knee than a hidden queue may.
func TestARefutedLineTakesItsKneeAlong(t *testing.T) {
	for _, before := range []measured{{}, {knee: 12, samples: 96}} {
		l, err := New(Config{Slack: 10})
		if err != nil {
			t.Fatal(err)
		}
		l.knee.at, l.knee.samples = before.knee, before.samples
		l.confirm(170)
		l.confirm(175) // more of the same
		if !l.line.confirmed || l.knee.at != 175 || l.knee.samples != samplesMost {
			t.Errorf("confirmed: a line is %v, its knee %v of %v samples, want 175 of %v", l.line.confirmed, l.knee.at, l.knee.samples, samplesMost)
		}
		l.knee.rate = 175.0 / 50 // a residence of 50, where a hidden queue may make one of 40
		l.refute()
		l.knee.at += 3 // learned since
		l.refute()
		if l.line.confirmed || l.knee.at != before.knee+3 || l.knee.samples != before.samples {
			t.Errorf("refuted: a line is %v, the knee %v of %v samples, want %v of %v", l.line.confirmed, l.knee.at, l.knee.samples, before.knee+3, before.samples)
		}
		l.confirm(175)
		l.knee.rate = 175.0 / 30
		if l.refute(); l.line.confirmed || l.knee.at != 175 {
			t.Errorf("refuted, with a knee that hides nothing: a line is %v, the knee %v, want 175", l.line.confirmed, l.knee.at)
		}
	}
}

// TestFewerWithShorterResidence: whether requests waited for each other shows in how much shorter the residence
// is beside how many fewer run. A residence of 0.83 is no service time where 0.83 as many run.
func TestFewerWithShorterResidence(t *testing.T) {
	const millisecond = 1e6
	for _, tt := range []struct {
		name               string
		fewer, shorter     float64
		limitAtLeast, most int
	}{
		{"half as many, 0.9 of the residence: none waited", 0.5, 0.9, 150, 150},
		{"half as many, 0.75: some did", 0.5, 0.75, 70, 125},
		{"0.83 as many, 0.83: all wait for each other", 0.83, 0.83, 70, 130},
		{"0.83 as many, 0.99: none waited", 0.83, 0.99, 150, 150},
	} {
		l, err := New(Config{Slack: 10 * millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.knee.rate, l.knee.alone = 1000.0/1e9, 5*millisecond
		from := point{concurrency: 150, throughput: l.knee.rate, residence: 150 * millisecond, samples: 600, limit: 150, bound: true}
		l.try(from, fewer)
		l.limit = tt.fewer * 150
		l.judge(point{concurrency: l.limit, throughput: l.limit / (tt.shorter * from.residence), residence: tt.shorter * from.residence, samples: 600, limit: l.limit, bound: true})
		if l.Limit() < tt.limitAtLeast || l.Limit() > tt.most {
			t.Errorf("%s: the limit is %d, want %d to %d", tt.name, l.Limit(), tt.limitAtLeast, tt.most)
		}
	}
}

// TestMoreInVainSaysNothingAgainstFewer: where no ranks show a queue, more are tried again and again; that it
// gains nothing puts off the next such trial, not the one with fewer, but on shared processors.
func TestMoreInVainSaysNothingAgainstFewer(t *testing.T) {
	const millisecond = 1e6
	for _, tt := range []struct {
		name  string
		ranks order
		short bool
		gap   int
	}{
		{"ranks reach as far as what runs", order{count: 100, sum: 2000, top: 40}, false, trialFirst},
		{"the same on processors that are short", order{count: 100, sum: 2000, top: 40}, true, 2 * trialFirst},
		{"ranks do not tell", order{}, false, 2 * trialFirst},
	} {
		l, err := New(Config{Slack: 10 * millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.SetShort(tt.short)
		l.knee.rate, l.knee.alone, l.knee.at = 1000.0/1e9, 35*millisecond, 38
		l.try(point{concurrency: 40, throughput: l.knee.rate, residence: 40 * millisecond, took: 40 * millisecond, samples: 100, limit: 40, order: tt.ranks, bound: true}, more)
		l.judge(point{concurrency: 60, throughput: l.knee.rate, residence: 60 * millisecond, took: 60 * millisecond, samples: 100, limit: 60, bound: true})
		if l.trial.kind != noTrial || l.agenda.gap != tt.gap || l.agenda.upGap != 2*raiseFirst {
			t.Errorf("%s: in a trial: %v, the next one with fewer in %d windows, with more in %d; want none, %d and %d", tt.name, l.trial.kind != noTrial, l.agenda.gap, l.agenda.upGap, tt.gap, 2*raiseFirst)
		}
	}
}

// TestHastyWindows: a window that ended after a few completions, as a queue seemed to build up, and in which
// no more ran than did before, tells nothing of service time and throughput.
func TestHastyWindows(t *testing.T) {
	const millisecond = 1e6
	l, err := New(Config{Slack: 10 * millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.knee.rate, l.knee.alone, l.knee.at, l.seen.unbound = 1000.0/1e9, 5*millisecond, 40, believe
	p := point{concurrency: 40, throughput: 9000.0 / 1e9, residence: 60 * millisecond, took: 60 * millisecond, samples: 4, limit: 60}
	l.window.hasty = true
	l.whileFree(p)
	if l.knee.rate != 1000.0/1e9 || l.knee.alone != 5*millisecond {
		t.Errorf("a hasty window: %v/s and a service of %v ns, want 1000 and 5e6", l.knee.rate*1e9, l.knee.alone)
	}
	l.window.hasty = false
	l.whileFree(p)
	if l.knee.rate == 1000.0/1e9 {
		t.Error("a whole window says nothing of the throughput")
	}
}
