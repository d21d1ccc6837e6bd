package culprit

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Of eight connections three are in use in normal times. Beside tasks that use one each for a moment, one has kept four for long: since
// the objective was missed it is to blame for four of the five that are free in normal times, before that for half of the eight.
func TestBlameOfWhatIsFree(t *testing.T) {
	const ms = time.Millisecond
	s := Sample{At: mono.Time(10 * time.Second), Resources: []Resource{{Name: "connections", Kind: Queue, Units: 8}}}
	for i := range 10 {
		task := Task{ID: uint64(i + 1), Kind: 1, Started: s.At.Add(-200 * ms)}
		h := Hold{Task: int32(i), WaitingSince: Unset, HeldSince: Unset}
		switch {
		case i == 0:
			task.Kind, h.HeldSince, h.Used = 2, s.At.Add(-180*ms), 4
		case i <= 4:
			h.HeldSince, h.Used = s.At.Add(-2*ms), 1
		default:
			h.WaitingSince = s.At.Add(-100 * ms)
		}
		s.Tasks, s.Holds = append(s.Tasks, task), append(s.Holds, h)
	}
	for _, c := range []struct {
		what string
		in   intake
		want float64
	}{
		{"nothing is known", intake{}, 0.5},
		{"it has kept them since the objective was missed", intake{[]float64{3}, []float64{0.003}, s.At.Add(-190 * ms)}, 0.8},
		{"it kept them before", intake{[]float64{3}, []float64{0.003}, s.At.Add(-170 * ms)}, 0.5},
		{"others keep them for as long", intake{[]float64{3}, []float64{1}, s.At.Add(-190 * ms)}, 0.5},
		{"all are in use in normal times", intake{[]float64{8}, []float64{0.003}, s.At.Add(-190 * ms)}, 1},
	} {
		var v view
		var before, now looked
		v.look(&s, &before, &now, 100*ms, false)
		var g graph
		g.build(&v, 0.1, 0.5, c.in)
		sum := 0.0
		for _, part := range g.keeps {
			sum += part
		}
		if math.Abs(g.keeps[0]-c.want) > 1e-9 || sum > 1+1e-9 {
			t.Errorf("%s: it keeps %.3f, all %.3f; expected %.3f, and 1 at most", c.what, g.keeps[0], sum, c.want)
		}
	}
}

// A tenth less ends than usual: a backlog takes ten objectives until requests are late, so a task that took its units nine before that counts.
// Where hardly less ends, none counts that took them long before.
func TestABacklogTakesTime(t *testing.T) {
	const objective = 100 * time.Millisecond
	e, err := New(Config{Objective: objective})
	if err != nil {
		t.Fatal(err)
	}
	e.met, e.view.dt = mono.Time(10*time.Second), 20*time.Millisecond
	e.normal = normal{seen: learning, throughput: 100, noise: 0.5, held: []float64{1}}
	e.view.s = &Sample{}
	for _, tt := range []struct {
		now  float64 // requests per second
		want time.Duration
	}{{90, 2*objective + 10*objective}, {50, 2*objective + 2*objective}, {98, 2*objective + 20*objective}} {
		e.recent.done, e.recent.seconds = tt.now, 1
		if got := e.met.Sub(e.intake().since); (got - tt.want).Abs() > time.Millisecond {
			t.Errorf("%v of 100 requests per second end: what was taken %v before the objective was missed counts, expected %v", tt.now, got, tt.want)
		}
	}
	e.recent.done = 99.8
	if in := e.intake(); in.normal != nil {
		t.Error("within the noise nobody took anything")
	}
	e.normal.throughput, e.normal.noise, e.recent.done = 0, 0, 0
	if in := e.intake(); in.normal != nil {
		t.Errorf("what was taken since %v counts where never anything ended, expected nothing", in.since)
	}
}
