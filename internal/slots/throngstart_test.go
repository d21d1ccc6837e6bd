package slots

import (
	"testing"
	"time"
)

// TestFloodedAtTheStart: where eight at once do the most, twice as many requests come from the first instant on as can
// be done. Most of what a start lets in runs for longer than the few that ended took, so the limit gives way, and
// much is done once they have been worked off.
func TestFloodedAtTheStart(t *testing.T) {
	const seeds = 12
	done := 0.0
	for seed := range uint64(seeds) {
		s := newThrong(t, 0, 1.0/64, 2, seed)
		s.run(2 * time.Second)
		done += s.run(2*time.Second) / s.most() / seeds
	}
	if done < 0.7 {
		t.Errorf("%.2f of the most is done, want 0.7", done)
	}
}

// TestLongPollsAtTheStart: half of the requests run on for seconds. As many have ended as run, so it is no flood.
func TestLongPollsAtTheStart(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.window = window{done: 40, sum: 40 * 1e7, area: 45 * 2e8, newest: 2e8, last: 3e8}
	if l.use.slots = 45; l.flooded() {
		t.Error("forty short requests have ended beside long polls, and pass for a flood")
	}
	if l.use.slots = 160; !l.flooded() {
		t.Error("of two hundred requests forty have ended, the others have run for five times as long, and it is no flood")
	}
	if l.window.newest = 1e7; l.flooded() {
		t.Error("the newest have taken as little as the first did, beside long polls, and pass for a flood")
	}
	l.window.newest = 2e8
	if l.SetUseful(2); l.flooded() {
		t.Error("processors are short, which explains how long requests run, and it passes for a flood")
	}
}

// TestLateWhileSlotsAreFree: requests are late although nothing waits for a slot, so fewer are tried. Each trial that
// finds nothing makes the next one rarer.
func TestLateWhileSlotsAreFree(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.times = times{mean: 80e6, spread: 60e6}
	l.knee.alone = 10e6
	p := point{concurrency: 32, throughput: 200e-9, residence: 160e6, took: 160e6, samples: 32, over: 0.3}
	l.seen.free, l.seen.unbound = p, believe+1
	l.seen.free.samples = calmMemory
	gaps := []int{}
	for range 2000 {
		if l.freeCrowd(p); l.trial.kind == climbDown {
			gaps = append(gaps, l.crowd.idleGap)
			if l.limit != 14 {
				t.Errorf("a step from 32 that run goes to %v, want 14", l.limit)
			}
			l.limit = l.trial.from.limit
			l.trial = trial{}
		}
	}
	if want := []int{48, 192, 768, 3072}; len(gaps) != len(want) || gaps[1] != want[1] || gaps[3] != want[3] {
		t.Errorf("in 2000 windows the next trials are %v windows away, want %v", gaps, want)
	}
	p.over = 0.01
	l.crowd.idleGap = 0
	if l.freeCrowd(p); l.trial.kind != noTrial {
		t.Error("hardly any are late, and fewer are tried")
	}
}

// TestShortageAsksOnce: the first shortage of processors brings a trial forward, and later ones do not once the knee was
// measured: the trial itself may be what ends the shortage.
func TestShortageAsksOnce(t *testing.T) {
	for samples, again := range map[float64]bool{0: true, 64: false} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.knee = knee{at: 6, samples: samples, rate: 650e-9, alone: 10e6}
		for i, due := range []bool{true, again, again} {
			l.agenda.untried = 0
			l.SetUseful(1)
			if got := l.agenda.untried >= l.agenda.gap; got != due {
				t.Errorf("a knee of %v samples: in shortage %d a trial is due %v, want %v", samples, i, got, due)
			}
			if target := l.target(); target < 8 || target > 9 {
				t.Errorf("the knee is 6, and %v run where processors are short, want 9: they also wait for something else", target)
			}
			l.SetUseful(0)
		}
	}
}
