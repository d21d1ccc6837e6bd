package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
)

// TestPaceFollowsALimitInCalm: a limit that moves while slots are free changes the gap between departures only as
// far as slots are what is short. One of nine slots that sank to four, where a request takes 14 ms and three are
// worked on, doubled the gap, and a burst after that was refused for a wait that nobody would have had.
func TestPaceFollowsALimitInCalm(t *testing.T) {
	for _, tt := range []struct {
		name     string
		was, is  int
		service  time.Duration
		gap, new time.Duration
	}{
		{"fewer, and enough for what is worked on", 9, 4, 14 * ms, 5600 * time.Microsecond, 5600 * time.Microsecond},
		{"fewer than are worked on", 9, 3, 45 * ms, 5 * ms, 15 * ms},
		{"more, where slots were short", 4, 8, 40 * ms, 10 * ms, 5 * ms},
		{"more, where others wait inside", 4, 8, 40 * ms, 8 * ms, 5 * ms},
		{"more than are worked on", 4, 8, 80 * ms, 8 * ms, 8 * ms},
	} {
		l, err := slots.New(slots.Config{Slack: 10 * ms, Initial: tt.is})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		place := l.Acquire(now)
		l.Release(now.Add(tt.service), now, place, true)
		p := pace{slots: tt.was, scale: 1, gap: mean{value: float64(tt.gap), quick: float64(tt.gap), count: 8}}
		p.follow(l)
		if got := time.Duration(p.gap.value); got.Round(time.Microsecond) != tt.new {
			t.Errorf("%s: the gap is %v, want %v", tt.name, got, tt.new)
		}
	}
}
