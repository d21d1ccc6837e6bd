package taskfile

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// The clock is rough only after a second of looks without a reason to be exact, and at once fine
// when there is one.
func TestClockRate(t *testing.T) {
	const objective = 16 * time.Millisecond
	at := mono.Time(time.Second)
	calm := Look{Sample: culprit.Sample{At: at, Tasks: []culprit.Task{{Started: at.Add(-objective / 4)}, {Started: 0, Background: true}}, Holds: []culprit.Hold{{WaitingSince: culprit.Unset}}}}
	late, old, waits := calm, calm, calm
	late.Sample.Finished.Late = 1
	old.Sample.Tasks = []culprit.Task{{Started: at.Add(-objective)}}
	waits.Sample.Holds = []culprit.Hold{{WaitingSince: at}}

	c := newClockRate(Loop{Objective: objective})
	period := func() time.Duration { return time.Duration(c.period.Load()) }
	for _, reason := range []*Look{&late, &old, &waits} {
		if c.follow(reason, objective); period() != objective/8 {
			t.Errorf("a look with a reason: ticks every %v, expected %v", period(), objective/8)
		}
		for i := range hurriedLooks {
			if period() != objective/8 {
				t.Errorf("calm for %d looks: ticks every %v, expected %v", i, period(), objective/8)
			}
			c.follow(&calm, objective)
		}
		if period() != objective/4 {
			t.Errorf("calm for %d looks: ticks every %v, expected %v", hurriedLooks, period(), objective/4)
		}
	}
	for _, tt := range []struct{ objective, clock, fine, rough time.Duration }{
		{time.Millisecond, 0, time.Millisecond, time.Millisecond},
		{time.Second, 0, 10 * time.Millisecond, 10 * time.Millisecond},
		{time.Second, 3 * time.Millisecond, 3 * time.Millisecond, 3 * time.Millisecond},
	} {
		if c := newClockRate(Loop{Objective: tt.objective, Clock: tt.clock}); c.fine != tt.fine || c.rough != tt.rough {
			t.Errorf("objective %v, clock %v: every %v and %v, expected %v and %v", tt.objective, tt.clock, c.fine, c.rough, tt.fine, tt.rough)
		}
	}
}
