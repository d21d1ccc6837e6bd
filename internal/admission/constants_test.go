package admission

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// What a Gate assumes of queues follows from the objective: credits steer to two fifths of
// it in the queue, the AQM refuses at twice that, and residence is judged in tenths.
func TestDelaysFollowFromTheObjective(t *testing.T) {
	cfg, err := Config{Objective: 100 * time.Millisecond}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.TargetDelay != 40*time.Millisecond || cfg.MaxDelay != 80*time.Millisecond || cfg.Slots.Slack != 10*time.Millisecond || cfg.QueueLimit != 10_000 {
		t.Errorf("with an objective of 100 ms the target is %v, the most %v, a Slack %v, and %d may wait", cfg.TargetDelay, cfg.MaxDelay, cfg.Slots.Slack, cfg.QueueLimit)
	}
	if cfg.Credit.TargetDelay != cfg.TargetDelay || cfg.Credit.Objective != cfg.Objective {
		t.Errorf("the pool is told a target of %v and an objective of %v", cfg.Credit.TargetDelay, cfg.Credit.Objective)
	}
}

// Without an overload a request may wait four fifths of the time that is left, however
// few places are worth while in one; in an overload no longer than those.
func TestLenienceEndsInAnOverload(t *testing.T) {
	w := newWorth(100 * time.Millisecond)
	w.longest = 10 * time.Millisecond
	for _, c := range []struct {
		overload float64
		budget   time.Duration
		want     time.Duration
	}{
		{0, 100 * time.Millisecond, 80 * time.Millisecond}, {0, 95 * time.Millisecond, 76 * time.Millisecond},
		{1, 100 * time.Millisecond, 10 * time.Millisecond}, {0.5, 100 * time.Millisecond, 45 * time.Millisecond},
	} {
		if got := w.worthwhile(c.budget, c.overload); got != c.want {
			t.Errorf("with %v left and an overload of %v a wait of %v is worth while, want %v", c.budget, c.overload, got, c.want)
		}
	}
}

// Three refusals in twenty are an overload, and so is a queue that was there for two
// objectives.
func TestWhatIsAnOverload(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const now = mono.Time(10 * time.Second)
	for _, c := range []struct {
		refused float64
		queue   time.Duration
		want    float64
	}{
		{0, 0, 0}, {0.075, 0, 0.5}, {0.15, 0, 1}, {0.5, 0, 1},
		{0, 100 * time.Millisecond, 0}, {0, 150 * time.Millisecond, 0.5}, {0, time.Second, 1},
	} {
		g.demand.refused, g.demand.idle = c.refused, now.Add(-c.queue)
		if got := g.overload(now); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v refused and a queue for %v is an overload of %v, want %v", c.refused, c.queue, got, c.want)
		}
	}
}

// One wait that was wrong by any amount makes the next ones at most three sixty-fourths
// more cautious.
func TestOneWrongWaitIsNoRule(t *testing.T) {
	w := newWorth(100 * time.Millisecond)
	w.kept(time.Hour, 1)
	if want := 1 + 3.0/64; w.error != want {
		t.Errorf("the error is %v after one wrong wait, want %v", w.error, want)
	}
}

// Refusals alone are no overload that goes on while there are pauses: bursts of one objective with pauses of one between
// them. Without pauses, they are one after the eight objectives that the mean takes to reach 0.95 and more. Time may begin anywhere.
func TestPausesAreNoOverload(t *testing.T) {
	const objective = 100 * time.Millisecond
	for _, c := range []struct {
		from  mono.Time
		pause bool
		want  float64
	}{{mono.Time(time.Hour), true, 0}, {mono.Time(time.Hour), false, 1}, {-mono.Time(time.Hour), true, 0}, {-mono.Time(time.Hour), false, 1}} {
		var f filled
		now := c.from
		for i := range 16 * 100 {
			part := 1.0
			if c.pause && i/100%2 == 1 {
				part = 0.2
			}
			now = now.Add(objective / 100)
			f.pass(now, part, objective)
		}
		if got := f.sustained(); got != c.want {
			t.Errorf("from %v, pauses %v: %v of an overload that goes on, want %v", c.from, c.pause, got, c.want)
		}
	}
}
