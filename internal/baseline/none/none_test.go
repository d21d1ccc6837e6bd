package none

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Nothing is refused, not even what expired long ago, and no time ever passes
// for the policy.
func TestEverythingRunsAtOnce(t *testing.T) {
	var d Door
	for i := range 10_000 {
		ticket := &admission.Ticket{}
		ticket.Deadline = -1
		if v := d.Arrive(mono.Time(i), ticket); v != admission.Run {
			t.Fatalf("request %d: %v, want run", i, v)
		}
		d.Leave(mono.Time(i), ticket, work.Done)
		if f := d.Feedback(mono.Time(i), ticket); f != (baseline.Feedback{}) {
			t.Fatalf("request %d: feedback %+v, want none", i, f)
		}
	}
	if d.NextWake() != mono.Never {
		t.Error("it wants to be woken")
	}
	var s Sender
	w := &credit.Waiter{}
	for range 10_000 {
		if step, reason := s.Submit(0, w, work.MaxPriority); step != credit.Send {
			t.Fatalf("submit: %v, %v; want it sent", step, reason)
		}
	}
	s.OnReply(0, w, time.Hour, baseline.Feedback{Reason: work.Delay})
	if step, _ := s.Submit(0, w, 0); step != credit.Send || s.NextWake() != mono.Never {
		t.Error("a refusal changed what is sent")
	}
}
