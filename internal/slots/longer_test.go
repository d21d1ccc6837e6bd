package slots

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLonger: behind busy workers each waits for those that it found; where nothing is short it takes as long as
// ever, and where the others are elsewhere, for most of the time, hardly longer.
func TestLonger(t *testing.T) {
	for _, tt := range []struct {
		name string
		took func(found, random float64) float64
		want bool
	}{
		{"in line behind 4", func(found, random float64) float64 { return (found-4)/4 + random }, true},
		{"nothing is short", func(_, random float64) float64 { return random }, false},
		{"elsewhere for most of the time", func(found, random float64) float64 { return 10 + found/10 + random }, false},
	} {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var l longer
			for range 400 {
				found := float64(5 + rng.IntN(12))
				l.add(found, 1e6*tt.took(found, rng.ExpFloat64()))
			}
			if got := l.line(); got != tt.want {
				by, deviation := l.elasticity()
				t.Errorf("%s, seed %d: in line: %v (elasticity %.2f±%.2f), want %v", tt.name, seed, got, by, deviation, tt.want)
			}
		}
	}
}

// TestOverlong: polls last as long as they last; requests that wait for each other inside last longer the more there
// are, or until their callers give up.
func TestOverlong(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tt := range []struct {
		name  string
		took  func(found float64) float64
		given bool
		want  bool
	}{
		{"polls", func(float64) float64 { return 2e9 }, false, false},
		{"exports", func(float64) float64 { return 1e9 * (1 + rng.ExpFloat64()) }, false, false},
		{"a pool of connections", func(found float64) float64 { return 5e6 * found }, false, true},
		{"callers that give up", func(float64) float64 { return 1e9 }, true, true},
	} {
		var o overlong
		for range 200 {
			found := float64(40 + rng.IntN(60))
			o.add(found, tt.took(found), !tt.given)
		}
		if got := o.wait(); got != tt.want {
			t.Errorf("%s: they wait for each other: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWideTrial: half as many again as a line's ranks say do more and take no longer, so it is none; or they take
// longer and do no more, and the next such trial is later.
func TestWideTrial(t *testing.T) {
	for _, tt := range []struct {
		name         string
		gain, longer float64
		want         bool
	}{
		{"more is done", 1.4, 1.05, true},
		{"they wait", 1.02, 1.45, false},
	} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed, l.knee.at, l.limit, l.knee.rate, l.knee.alone = true, 12, 13, 2e-7, 60e6
		from := point{concurrency: 12, throughput: 2e-7, residence: 60e6, took: 60e6, samples: 128, limit: 13, bound: true}
		l.agenda.sinceWide = wideFirst - 1
		if l.widens(from) {
			t.Errorf("%s: a wide trial after %d windows, want %d", tt.name, l.agenda.sinceWide, wideFirst)
		}
		if l.agenda.sinceWide++; !l.widens(from) {
			t.Fatalf("%s: no wide trial after %d windows", tt.name, l.agenda.sinceWide)
		}
		if l.widen(from); l.Limit() != 18 {
			t.Errorf("%s: %d run in the trial, want 18", tt.name, l.Limit())
		}
		for range 2 {
			if l.trial.kind == wide {
				l.judge(point{concurrency: 18, throughput: 2e-7 * tt.gain, residence: 60e6 * tt.longer, took: 60e6 * tt.longer, samples: 144, limit: 18, bound: true})
			}
		}
		if l.line.confirmed == tt.want || !tt.want && l.agenda.wideGap != 4*wideFirst || tt.want && l.Limit() < 24 {
			t.Errorf("%s: a line: %v, limit %d, next wide trial after %d windows; want %v", tt.name, l.line.confirmed, l.Limit(), l.agenda.wideGap, !tt.want)
		}
	}
}

// TestLowerLimitThatDoesLess: ranks said that 15 are served, and with so many less is done than with 39, which took no
// longer. So there is no line, and the knee is what Little's law says.
func TestLowerLimitThatDoesLess(t *testing.T) {
	l, err := New(Config{Slack: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.limit = 39
	l.seen.level = level{length: 1e9, done: 500, area: 39e9, sum: 500 * 78e6, ends: 500, windows: 4, order: order{count: 500, sum: 1000, top: 15}}
	l.begin(0, 16.0/39)
	l.line.confirmed, l.knee.at, l.limit = true, 15, 16
	l.compare(l.seen.other, point{concurrency: 16, throughput: 250e-9, residence: 62e6, samples: 96, order: order{count: 96, sum: 192, top: 8}})
	if l.line.confirmed || l.knee.at < 30 || l.knee.at > 32 {
		t.Errorf("a line: %v, knee %.1f, want none and 31", l.line.confirmed, l.knee.at)
	}
	if l.confirm(15); l.line.confirmed {
		t.Error("what the ranks say is believed again at once")
	}
}

// TestRegretALine: a trial found that requests end in the order of 4 in line, and the limit went down from 27. With so
// few less is done than before, although they take no longer than in calm: there is no line, and the knee is by Little's
// law. Where they take longer the work has become slower, and a few of them tell nothing yet.
func TestRegretALine(t *testing.T) {
	for _, tt := range []struct {
		name       string
		throughput float64 // of that before
		took       float64 // ms; 40 in calm
		samples    float64
		want       bool
	}{
		{"a third of it", 0.33, 40, 40, true},
		{"a third of it, of few", 0.33, 40, 8, false},
		{"as much", 1, 40, 40, false},
		{"a third of it, each takes three times as long", 0.33, 120, 40, false},
	} {
		l, err := New(Config{Slack: 15 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed, l.knee.at, l.limit, l.knee.rate = true, 4, 5, 400e-9*tt.throughput
		l.lowered = point{concurrency: 27, throughput: 400e-9, residence: 70e6, samples: 80}
		l.seen.free = point{concurrency: 10, throughput: 250e-9, residence: 40e6, samples: 256}
		p := point{concurrency: 5, throughput: l.knee.rate, residence: tt.took * 1e6, took: tt.took * 1e6, samples: tt.samples}
		if got := l.regret(p); got != tt.want || l.line.confirmed == tt.want || tt.want && (l.knee.at < 15 || l.knee.at > 17) {
			t.Errorf("%s: regretted: %v, a line: %v, knee %.1f; want %v, %v, and 16 if so", tt.name, got, l.line.confirmed, l.knee.at, tt.want, !tt.want)
		}
	}
}

// TestSlownessIsOverBehindALine: during a slowdown of five times ranks said that 4 are served, as only the first stage
// was seen. Now they take as long as when 14 ran and slots were free: as many run again, and there is no line.
func TestSlownessIsOverBehindALine(t *testing.T) {
	l, err := New(Config{Slack: 15 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.unqueued.n, l.unqueued.residence = 14, 43e6
	l.line.confirmed, l.knee.at, l.limit, l.knee.rate, l.knee.alone, l.knee.service = true, 4, 4, 20e-9, 200e6, 200e6
	for _, took := range []float64{200e6, 41e6} {
		l.steer(point{concurrency: 4, throughput: 4 / took, residence: took, took: took, samples: 32, limit: 4, bound: true})
		if over := took < 100e6; (l.Limit() >= 14) != over || l.line.confirmed == over {
			t.Errorf("they take %v ms: limit %d, a line: %v; want 14 and none only once they take 41", took/1e6, l.Limit(), l.line.confirmed)
		}
	}
}

// TestDownAfterUp: a trial with more that does no more says that there is a queue. Where the knee was never measured the
// next one is with fewer, at once, although the ranks reach as far as what runs: they always do where those that wait are
// served at random, or share what serves them.
func TestDownAfterUp(t *testing.T) {
	full := order{count: 64, sum: 64 * 20, top: 40}
	for _, samples := range []float64{0, 128} {
		l, err := New(Config{Slack: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.knee.at, l.knee.samples, l.limit, l.knee.rate, l.knee.alone = 41, samples, 45, 1e-6, 41e6
		p := point{concurrency: 44, throughput: 1e-6, residence: 44e6, took: 44e6, samples: 256, limit: 45, bound: true, order: full}
		l.try(p, more)
		p.concurrency, p.residence, p.took, p.limit = 55, 55e6, 55e6, 56
		l.judge(p)
		p.concurrency, p.residence, p.took, p.limit = 44, 44e6, 44e6, 45
		if want := map[float64]trialKind{0: fewer, 128: noTrial}[samples]; l.due(p) != want {
			t.Errorf("the knee is known by %v samples: the next trial goes %d, want %d", samples, l.due(p), want)
		}
	}
}

// TestMoreBeyondALine: 13 run for the sake of a line of 12, and 20 do a fifth more, because 16 keep the service busy. In two
// windows together that is no chance, and there is no line. A twentieth more in one is.
func TestMoreBeyondALine(t *testing.T) {
	const perSecond, ms = 1e-9, 1e6
	for _, c := range []struct {
		does float64
		line bool
	}{{375, false}, {325, true}} {
		l, err := New(Config{Slack: 15 * ms})
		if err != nil {
			t.Fatal(err)
		}
		from := point{concurrency: 13, throughput: 310 * perSecond, residence: 42 * ms, took: 42 * ms, samples: 192, limit: 13, bound: true}
		l.line.confirmed, l.knee = true, knee{at: 12, samples: samplesMost, rate: from.throughput, alone: 39 * ms, service: 39 * ms}
		l.limit, l.trial = 20, trial{kind: wide, from: from, before: from}
		more := from
		more.concurrency, more.throughput, more.limit, more.samples = 20, c.does*perSecond, 20, 160
		more.took = more.concurrency / more.throughput
		more.residence = more.took
		l.seen.length = more.samples / more.throughput
		if l.judgeWide(more); l.line.confirmed != true {
			t.Fatalf("%v/s: one window refutes a line", c.does)
		}
		if l.trial.kind == wide {
			l.seen.level = level{length: l.seen.length, done: 160, ends: 160, sum: 160 * more.took, windows: 1}
			l.judgeWide(more)
		}
		if l.line.confirmed != c.line || !c.line && (l.knee.at < 15 || l.knee.at > 17 || l.line.wary == 0) {
			t.Errorf("20 do %v/s, 13 did 310: a line: %v, knee %.1f; expected %v, and 16 without one", c.does, l.line.confirmed, l.knee.at, c.line)
		}
	}
}
