package contenders

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/work"
)

// Each of the limits enters as its authors ship it: 20 at first, and moved by every
// completion, or by a second's worth of them.
func TestLimitsEnterWithTheirAuthorsDefaults(t *testing.T) {
	s := Setting{Objective: 200 * time.Millisecond, Cores: 100, Service: 10 * time.Millisecond}
	const authors = 20
	for _, p := range Windowed(s) {
		if got := afterHalfASecond(t, p); got != authors {
			t.Errorf("%s moved to %d before its first window was over, want %d", p.Name, got, authors)
		}
	}
	for _, p := range []mesh.Control{Gradient2(s), Vegas(s)} {
		if got := afterHalfASecond(t, p); got == authors {
			t.Errorf("%s is still at %d after 500 completions, want it moved by each", p.Name, got)
		}
	}
}

// afterHalfASecond returns the limit of a new door after a completion a millisecond, each
// of 10 ms, with as many running as the limit allows.
func afterHalfASecond(t *testing.T, p mesh.Control) int {
	t.Helper()
	d, err := p.Door(1, mesh.Place{})
	if err != nil {
		t.Fatal(err)
	}
	limit := func() int { return d.(interface{ Limit() int }).Limit() }
	var running []*admission.Ticket
	for i := range 500 {
		now := mono.Time(0).Add(time.Duration(i) * time.Millisecond)
		running = fill(now, d, running)
		if i >= 10 {
			d.Leave(now, running[0], work.Done)
			running = running[1:]
		}
	}
	return limit()
}

// fill lets requests in until the door refuses one.
func fill(now mono.Time, d baseline.Door, running []*admission.Ticket) []*admission.Ticket {
	for {
		t := &admission.Ticket{}
		if d.Arrive(now, t) != admission.Run {
			return running
		}
		running = append(running, t)
	}
}
