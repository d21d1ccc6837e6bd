package slots

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Answers begin after 30 ms and are written for an exponential time of 2 s, without any bottleneck. A second later
// the slot is given back, as edges do with a stream. Six in ten are; the time that they held their slots is none
// that the others took, and no queue. Those that end before are judged as a whole.
func TestStreamsHoldNoQueue(t *testing.T) {
	const first, held = 30 * time.Millisecond, time.Second
	for seed := range uint64(10) {
		l, err := New(Config{Slack: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		refused, n := 0, 0
		events := map[mono.Time][]func(){}
		const tick = time.Millisecond
		for now := mono.Time(0); now < mono.Time(60*time.Second); now = now.Add(tick) {
			for _, f := range events[now] {
				f()
			}
			delete(events, now)
			if rng.Float64() > 0.02 {
				continue
			}
			if n++; !l.Free() {
				refused++
				continue
			}
			started, place := now, l.Acquire(now)
			took := time.Duration(rng.ExpFloat64() * float64(2*time.Second)).Round(tick)
			events[now.Add(first)] = append(events[now.Add(first)], func() { l.Answer(started.Add(first), &place) })
			over := now.Add(first + min(took, held))
			events[over] = append(events[over], func() {
				if took < held {
					l.Release(over, started, place, true)
				} else {
					l.Part(over, started, place)
				}
			})
		}
		if float64(refused) > 0.005*float64(n) {
			t.Errorf("seed %d: %d of %d found no slot, limit %d, want half a percent at most: nothing is short", seed, refused, n, l.Limit())
		}
	}
}

// A service works on 8 requests at a time and is asked for more than that. The answers of some requests are streams, which
// keep their slots for as long as edges leave them to any answer that has begun, and hold no worker meanwhile. Other answers
// begin early, and the workers are held to their ends.
func TestStreamsKeepNoSlotFromOthers(t *testing.T) {
	const workers, mean, held = 8, 100 * time.Millisecond, time.Second
	const length, warm, tick = 60 * time.Second, 10 * time.Second, 2 * time.Millisecond
	for _, tt := range []struct{ streams, early float64 }{{0.15, 0}, {0.15, 0.5}, {0.5, 0}, {1, 0}} {
		for seed := range uint64(3) {
			l, err := New(Config{Slack: held / 10})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, 2))
			busy, done := 0, 0
			var line []func(now mono.Time)
			events := map[mono.Time][]func(now mono.Time){}
			after := func(now mono.Time, d time.Duration, f func(mono.Time)) {
				at := now.Add(d.Round(tick))
				events[at] = append(events[at], f)
			}
			serve := func(started mono.Time, place *Place) func(now mono.Time) {
				took := time.Duration((0.5 + rng.Float64()) * float64(mean))
				stream, early := rng.Float64() < tt.streams, rng.Float64() < tt.early
				return func(now mono.Time) {
					busy++
					if early && !stream {
						after(now, took/4, func(now mono.Time) { l.Answer(now, place) })
					}
					after(now, took, func(now mono.Time) {
						if busy--; now > mono.Time(warm) {
							done++
						}
						if !stream {
							l.Release(now, started, *place, true)
							return
						}
						l.Answer(now, place)
						after(now, held, func(now mono.Time) { l.Part(now, started, *place) })
					})
				}
			}
			for now := mono.Time(0); now < mono.Time(length); now = now.Add(tick) {
				for _, f := range events[now] {
					f(now)
				}
				delete(events, now)
				for l.Free() {
					place := l.Acquire(now)
					line = append(line, serve(now, &place))
				}
				for ; busy < workers && len(line) > 0; line = line[1:] {
					line[0](now)
				}
			}
			if most := workers * float64(length-warm) / float64(mean); float64(done) < 0.9*most {
				t.Errorf("%v, seed %d: %d of %.0f requests were worked on, limit %d", tt, seed, done, most, l.Limit())
			}
		}
	}
}

// Where the limit is fixed, its owner decides how many requests run, and one whose answer has begun is one of them.
func TestStreamsCountWhereTheLimitIsFixed(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond, Initial: 2, Min: 2, Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	for now := mono.Time(0); now < 100; now++ {
		place := l.Acquire(now)
		l.Answer(now, &place)
		if l.InUse() != 1 {
			t.Fatalf("%d slots are in use, expected 1", l.InUse())
		}
		l.Part(now+1, now, place)
	}
}

// TestOldOnesEndBesideStreams: a window that waits for the requests from before it begins once these have ended, also if
// some of them are answers that have begun, a part of them streams.
func TestOldOnesEndBesideStreams(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.times = times{mean: float64(100 * time.Millisecond)}
	for i := range 64 {
		l.streaming.add(float64(time.Millisecond), i%2 == 0)
	}
	now, before := mono.Time(time.Hour), [16]Place{}
	for i := range before {
		before[i] = l.Acquire(now)
	}
	for i := range 8 {
		l.Answer(now, &before[i])
	}
	l.trial.kind = climbDown
	l.window.moved, l.window.opens = true, now
	for i := range 40 {
		now = now.Add(time.Millisecond)
		if i < len(before) {
			l.Release(now, now.Add(-time.Millisecond), before[i], true)
		} else {
			l.Release(now, now.Add(-time.Millisecond), l.Acquire(now), true)
		}
	}
	if l.window.flush != 0 || l.window.done == 0 {
		t.Errorf("the window waits for %d requests that have ended, and for %d ends more", l.window.old, l.window.flush)
	}
}

// TestReturnTellsOfStreams: an answer that ends while nothing tells of the service is no stream, unless it goes on.
func TestReturnTellsOfStreams(t *testing.T) {
	for _, stream := range []bool{false, true} {
		l, err := New(Config{Slack: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		place := l.Acquire(1)
		l.Answer(2, &place)
		l.Return(3, place, stream)
		if got := l.streaming.share() > 0; got != stream || l.Running() != 0 || l.use.answering != 0 {
			t.Errorf("a stream: %v, taken for one: %v, and %d run, %d of them answered", stream, got, l.Running(), l.use.answering)
		}
	}
}
