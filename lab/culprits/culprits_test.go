package culprits

import (
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// What counts: from a second after the onset to the end, by the instant at which a
// request was meant to leave; dropped ones from the onset on.
func TestFigures(t *testing.T) {
	p := &played{onset: time.Second, end: 4 * time.Second}
	add := func(left, took time.Duration, ok bool) { p.answers = append(p.answers, answer{left, took, ok}) }
	add(500*ms, 10*ms, false)  // before the onset
	add(1500*ms, 600*ms, true) // meant to leave too early to be timed, answered within
	for i := range 98 {
		add(2*time.Second+time.Duration(i)*ms, 10*ms, true)
	}
	add(2200*ms, 90*ms, false)
	add(3900*ms, 500*ms, true) // late, and answered after the end
	f := p.figures(100 * ms)
	if f.rate != 99.0/2 || f.p99 != 500*ms || f.dropped != 1.0/101 || f.late != 0.02 {
		t.Errorf("%+v", f)
	}
	p.onsetAt = time.Unix(100, 0)
	p.blamed = []int64{7}
	p.cancels = []cancelled{{time.Unix(101, 0), 8, "statement"}, {time.Unix(102, 0), 7, "statement"}, {time.Unix(103, 0), 7, "session"}}
	if right, wrong, after := p.right(); right != 2 || wrong != 1 || after != 2*time.Second {
		t.Errorf("%d right, %d wrong, after %v", right, wrong, after)
	}
}

// The seed decides what happens, the same for all contenders, by half and double.
func TestDraw(t *testing.T) {
	for _, s := range scenes() {
		for seed := range uint64(50) {
			a, b := s.draw(seed, false), s.draw(seed, false)
			if a != b {
				t.Fatalf("%s, seed %d: %+v and %+v", s.name, seed, a, b)
			}
			if a.size < 0.5 || a.size > 2 || a.rate < s.rate/2 || a.warm < time.Second || a.warm > 6*time.Second || a.rest < 2*settle {
				t.Errorf("%s, seed %d: %+v", s.name, seed, a)
			}
		}
	}
}

// An objective that is measured is a fifth more than the 99th percentile alone, within what a guard can tell and what the scene asks for.
func TestTighter(t *testing.T) {
	s := scene{objective: 200 * ms}
	for p99, want := range map[time.Duration]time.Duration{0: leastObjective, ms: leastObjective, 10 * ms: 12 * ms, 10010 * time.Microsecond: 12 * ms, time.Second: 200 * ms} {
		if got := s.tighter(p99); got != want {
			t.Errorf("%v alone makes an objective of %v, expected %v", p99, got, want)
		}
	}
}

// Names are those of the list, and nothing is missing of a scene.
func TestScenes(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scenes() {
		if names[s.name] || s.title == "" || s.about == "" || (s.objective == 0 || s.rate == 0) == (s.load == 0) || s.lasts == 0 || len(s.culprits) == 0 || s.native == nil || s.nativeTitle == "" {
			t.Errorf("scene %q is not complete or comes twice", s.name)
		}
		names[s.name] = true
		if found := s.rules.Check(); len(found) > 0 {
			t.Errorf("%s: %v", s.name, found)
		}
	}
	all := contenders()
	if !all[0].alone || all[1].run != nil || all[len(all)-1].name != ours {
		t.Error("the first contender meets no culprit, the second does nothing, the last is ours")
	}
}

// Who else would be cancelled: an idle holder is out of reach of pt-kill, victims pay
// with Protego, and the greedy one takes the longest holder of the busiest resource.
func TestChoices(t *testing.T) {
	const second = mono.Time(time.Second)
	both, session := culprit.StepsOf(culprit.Statement, culprit.Session), culprit.StepsOf(culprit.Session)
	l := &track.Look{Sample: culprit.Sample{At: 10 * second,
		Tasks: []culprit.Task{{ID: 1, Started: 2 * second, Idle: true, Steps: session}, {ID: 2, Started: 8 * second, Steps: both}, {ID: 3, Started: 9 * second, Steps: both},
			{ID: 4, Started: 10*second - 1, Steps: both}},
		Resources: []culprit.Resource{{Name: "lock", Kind: culprit.Lock}},
		Holds: []culprit.Hold{{Task: 0, HeldSince: 2 * second, WaitingSince: culprit.Unset}, {Task: 1, HeldSince: culprit.Unset, WaitingSince: 8 * second},
			{Task: 2, HeldSince: culprit.Unset, WaitingSince: 9 * second}, {Task: 3, HeldSince: culprit.Unset, WaitingSince: 10*second - 1}}}}
	for name, tt := range map[string]struct {
		f    func(*track.Look, time.Duration) []choice
		want []choice
	}{
		"oldest":  {oldest, []choice{{1, culprit.Statement}}},
		"victims": {victims, []choice{{1, culprit.Statement}, {2, culprit.Statement}}},
		"greedy":  {greedy, []choice{{0, culprit.Session}}},
	} {
		if got := tt.f(l, 100*ms); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, expected %v", name, got, tt.want)
		}
	}
	if got := greedy(&track.Look{Sample: culprit.Sample{Resources: l.Sample.Resources}}, ms); got != nil {
		t.Errorf("greedy on nothing: %v", got)
	}
}
