package slots

import (
	"testing"
	"time"
)

// TestAsBefore: work became slower for a while, so that hardly anything was in time and the limit went down
// to two. As soon as two take as little as 25 once did without a queue, 25 may run, and two deviations more: no trial at a time, which
// took 4 s for 45 workers (wild/random, world 1054).
func TestAsBefore(t *testing.T) {
	const swift = 33 * float64(time.Millisecond)
	for _, tt := range []struct {
		name      string
		residence float64
		useful    int
		samples   float64
		recovery  recovery
		want      int
	}{
		{"as fast as before", 1.2 * swift, 0, 9, recovered, 35},
		{"as fast as before, while it gives way", 1.2 * swift, 0, 9, regrowing, 35},
		{"still slower", 2 * swift, 0, 9, recovered, 2},
		{"too few to tell", swift, 0, 3, recovered, 2},
		{"where processors are short they are fast because they are few", swift, 1, 9, recovered, 2},
	} {
		l, err := New(Config{Slack: 8 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.limit, l.knee.at, l.unqueued.n, l.unqueued.residence = 2, 1.7, 25, swift
		l.knee.rate, l.knee.service, l.knee.alone, l.vain.state = 2/tt.residence, tt.residence, tt.residence, tt.recovery
		l.told.useful = tt.useful
		l.seen.level = level{windows: 1, length: 1e9, done: 1e9 * l.knee.rate}
		p := point{concurrency: 2, throughput: l.knee.rate, residence: tt.residence, took: tt.residence, samples: tt.samples, limit: 2, bound: true}
		l.steer(p)
		if tt.want == 35 && l.Limit() != 35 || tt.want == 2 && l.Limit() > 5 {
			t.Errorf("%s: the limit is %d, want %d", tt.name, l.Limit(), tt.want)
		}
	}
}

// TestMoreThatDidMoreIsNoLine: a trial upwards went on because 19 did more than 14. The ranks of times that
// vary little reach to 13 of 19 workers: that is no knee below the 19 (wild/random, world 311).
func TestMoreThatDidMoreIsNoLine(t *testing.T) {
	for _, proven := range []bool{false, true} {
		l, err := New(Config{Slack: 2600 * time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		from, first := point{concurrency: 14, throughput: 1e-6}, point{concurrency: 19, throughput: 1.4e-6}
		l.knee.at, l.trial = 19, trial{kind: more, from: from, before: from}
		want := 13.0
		if proven {
			l.trial.before, want = first, 19
		}
		if l.confirm(13); l.knee.at != want {
			t.Errorf("more did more: %v, the knee is %v, want %v", proven, l.knee.at, want)
		}
	}
}

// TestATrialUpwardsGoesOn: half as many again ran and did more. The trial goes on if that is more than half of what so
// many slots could do.
func TestATrialUpwardsGoesOn(t *testing.T) {
	for _, tt := range []struct {
		gain float64
		want bool
	}{
		{1.33, true}, {1.2, false},
	} {
		l, err := New(Config{Slack: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		from := point{concurrency: 10, throughput: 1e-6, took: 10e6, samples: 400, limit: 10}
		l.knee.at, l.knee.rate, l.knee.alone, l.agenda.gap = 10, 1e-6, 10e6, trialFirst
		l.trial = trial{kind: more, from: from, before: from}
		l.judgeMore(point{concurrency: 15, throughput: tt.gain * 1e-6, took: 11e6, samples: 400, limit: 15})
		if goesOn := l.trial.kind == more; goesOn != tt.want {
			t.Errorf("%v times as much: the trial goes on: %v, want %v", tt.gain, goesOn, tt.want)
		}
	}
}

// TestFewRanksPutOffNoTrial: where a window ends with a few requests their ranks tell of no queue, and the next
// trial upwards is not 48 windows away, which is half a minute where requests take 100 ms and one worker does them. On
// processors that are short ranks tell nothing, and residences do.
func TestFewRanksPutOffNoTrial(t *testing.T) {
	for _, tt := range []struct {
		name  string
		order order
		fifo  bool
		short bool
		alone float64
		want  trialKind
	}{
		{"few", order{count: 20, sum: 20, top: 1}, false, false, 50e6, more},
		{"many, and none beyond the first", order{count: 100, sum: 100, top: 1}, false, false, 50e6, noTrial},
		{"few, behind a line", order{count: 20, sum: 20, top: 1}, true, false, 50e6, noTrial},
		{"few, on processors that are short", order{count: 20, sum: 20, top: 1}, false, true, 50e6, noTrial},
		{"as far as what runs", order{count: 100, sum: 150, top: 2}, false, false, 50e6, more},
		{"as far as what runs, on processors that are short", order{count: 100, sum: 150, top: 2}, false, true, 50e6, noTrial},
		{"the same, and they take as long as alone", order{count: 100, sum: 150, top: 2}, false, true, 80e6, more},
	} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.knee.at, l.knee.alone, l.line.confirmed, l.told.short, l.agenda.untried = 2, tt.alone, tt.fifo, tt.short, raiseFirst
		if got := l.due(point{concurrency: 2, limit: 2, residence: 90e6, order: tt.order}); got != tt.want {
			t.Errorf("%s: the trial that is due goes %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestVariedResidenceHasLessHidden: where requests share what does them, some take several times the mean, and
// are late when the mean is 0.4 of the objective. A hidden queue is then shorter; of two requests at least.
func TestVariedResidenceHasLessHidden(t *testing.T) {
	for _, tt := range []struct {
		name        string
		deviation   float64
		knee, rate  float64 // rate per Slack
		most, least float64
	}{
		{"constant", 0, 4, 4, 16, 16},
		{"exponential", 1, 4, 4, 9.3, 9.2},
		{"exponential, where two are what is hidden", 1, 1, 0.8, 3, 3},
		{"exponential, where not even two are", 1, 1, 0.5, 2, 2},
	} {
		l, err := New(Config{Slack: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.knee.at, l.knee.samples, l.knee.rate = tt.knee, samplesMost, tt.rate/float64(10*time.Millisecond)
		l.times.mean, l.times.spread = 1e6, tt.deviation*1e6/1.36
		if got := l.target(); got > tt.most || got < tt.least {
			t.Errorf("%s: the limit is to be %v, want %v to %v", tt.name, got, tt.least, tt.most)
		}
	}
}
