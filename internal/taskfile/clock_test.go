package taskfile

import (
	"testing"
	"time"
)

// A task that begins moves a clock of mode coarse that is old, if there is an engine that reads it.
func TestATaskThatBeginsMovesTheClock(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   Mode
		engine uint64
		old    time.Duration
		moves  uint64
	}{
		{"an old clock", Coarse, 1, 3 * time.Millisecond, 1},
		{"a clock of now", Coarse, 1, -time.Hour, 0},
		{"no engine", Coarse, 0, 3 * time.Millisecond, 0},
		{"each event reads the time itself", Precise, 1, 3 * time.Millisecond, 0},
	} {
		f := inMemory(small)
		f.live.engine = tt.engine
		was := f.watch.now() - uint64(tt.old)
		f.at(was, tt.mode)
		s := f.Begin(Task{})
		started := s.words.started
		if f.live.moves != tt.moves || f.Mode() != tt.mode || (f.live.clock == packClock(was, tt.mode)) != (tt.moves == 0) {
			t.Errorf("%s: clock %d in mode %v, %d moves; it was %d in mode %v, expected %d moves", tt.name, f.live.clock, f.Mode(), f.live.moves, was, tt.mode, tt.moves)
		}
		if tt.engine != 0 && elapsed(was, started) == 0 && tt.old > 0 {
			t.Errorf("%s: it started at %d, the clock was at %d before", tt.name, started, was)
		}
	}
}

// Tracers keep the clock while they move it often, and the engine ticks again as soon as they do not.
func TestTheClockIsHandedOver(t *testing.T) {
	e := attached(t, inMemory(small))
	rate := newClockRate(Loop{Objective: time.Second})
	turned := func() bool {
		select {
		case <-e.turned:
			return true
		default:
			return false
		}
	}
	const ms = time.Millisecond
	for _, step := range []struct {
		moves        uint64
		over         time.Duration
		kept, turned bool
	}{{49, 100 * ms, false, false}, {50, 100 * ms, true, false}, {70, 100 * ms, true, false}, {49, 100 * ms, false, true}, {0, 100 * ms, false, false},
		{0, ms, false, false}, {1, 3 * ms, false, false}, {1, ms, true, false}, {0, 0, false, true}} {
		e.hand(rate, step.moves, step.over)
		if kept, turned := rate.kept.Load(), turned(); kept != step.kept || turned != step.turned {
			t.Errorf("%d moves in %v: kept by tracers %v, the engine told %v; expected %v, %v", step.moves, step.over, kept, turned, step.kept, step.turned)
		}
	}
}
