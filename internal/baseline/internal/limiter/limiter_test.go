package limiter

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// recorder is an algorithm with a fixed limit that writes its samples down.
type recorder struct {
	limit   int
	samples []sample
}

type sample struct {
	rtt      time.Duration
	inflight int
	dropped  bool
}

func (r *recorder) Limit() int { return r.limit }
func (r *recorder) Sample(rtt time.Duration, inflight int, dropped bool) {
	r.samples = append(r.samples, sample{rtt, inflight, dropped})
}

func arrive(d *Door, now mono.Time) (*admission.Ticket, admission.Verdict) {
	t := &admission.Ticket{}
	return t, d.Arrive(now, t)
}

func TestSamplesCarryTheInflightAtTheStart(t *testing.T) {
	r := &recorder{limit: 2}
	d := New(r, 0)
	a, _ := arrive(d, 0)
	b, _ := arrive(d, 1)
	c, v := arrive(d, 2)
	if v != admission.Shed || c.Reason() != work.QueueFull {
		t.Errorf("third of two: %v, %v; want shed, queue_full", v, c.Reason())
	}
	d.Leave(10, a, work.Done)
	d.Leave(10, a, work.Done) // a second time: nothing
	d.Leave(10, c, work.Done) // never ran: nothing
	d.Leave(21, b, work.Dropped)
	e, _ := arrive(d, 30)
	d.Leave(40, e, work.Ignored)
	want := []sample{{10, 1, false}, {20, 2, true}}
	if len(r.samples) != 2 || r.samples[0] != want[0] || r.samples[1] != want[1] {
		t.Errorf("samples %v, want %v", r.samples, want)
	}
	if d.Running() != 0 {
		t.Errorf("%d running at the end, want 0", d.Running())
	}
}

// A window is one sample, the mean, with the most that ran; one with fewer than
// ten completions is none, nor are completions under 100 µs.
func TestWindow(t *testing.T) {
	r := &recorder{limit: 100}
	d := New(r, time.Second)
	now := mono.Time(0)
	run := func(rtt time.Duration) {
		a, _ := arrive(d, now)
		d.Leave(now.Add(rtt), a, work.Done)
	}
	now = mono.Time(time.Millisecond)
	run(time.Millisecond) // ends the empty window before the first
	for i := range 9 {
		run(time.Duration(i+1) * time.Millisecond)
	}
	run(10 * time.Microsecond)
	now = mono.Time(3 * time.Second)
	run(10 * time.Millisecond)
	if want := (sample{5500 * time.Microsecond, 1, false}); len(r.samples) != 1 || r.samples[0] != want {
		t.Errorf("samples %v, want one, %v", r.samples, want)
	}
	now = mono.Time(5 * time.Second)
	run(time.Millisecond)
	if len(r.samples) != 1 {
		t.Errorf("a window of one completion counted: %v", r.samples)
	}
}
