package admissionlive

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The test binary is also the children's program.
func TestMain(m *testing.M) {
	bed.Child()
	os.Exit(m.Run())
}

// Real processes, one short run of each contender at one load. What they reach is the
// machine's business; that all are counted and shown is not.
func TestContest(t *testing.T) {
	if testing.Short() {
		t.Skip("starts pinned processes")
	}
	patient := setting{"patient", 4, ms, 2 * second, 0} // which the slowest machine meets
	c := contest{settings: []setting{patient}, loads: []float64{2}, repeats: 1, length: 400 * ms}
	r, err := c.run(t.Context(), experiment.Options{Quick: true, Seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := r.Table[0].Text(150) + r.Table[1].Text(150)
	for _, want := range []string{"capacity 4000/s", "spillgate", "semaphore:4:4000", "semaphore:4:1600", "none", "2x"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables do not mention %q:\n%s", want, text)
		}
	}
	if len(r.Bars) != 3 || r.Bars[0].Measured <= 0 {
		t.Errorf("bars %+v, want three, the first with a goodput", r.Bars)
	}
}

// The worlds are right, and every form runs what its bars need.
func TestCells(t *testing.T) {
	third := []bed.Peer{{Name: "third"}}
	for _, quick := range []bool{true, false} {
		c := contest{loads: []float64{0.7, 1, 2, 4, spike}}
		for _, s := range []setting{sleep, spin, loneSpin, fastSleep, fastSpin} {
			met := map[string][]float64{}
			for _, cell := range c.cells(&s, quick, third) {
				met[cell.Policy] = append(met[cell.Policy], cell.load)
				w := s.world(cell.load, 100, 4*second)
				for _, mistake := range w.Check() {
					t.Errorf("%s at %s: %v", s.name, loadName(cell.load), mistake)
				}
			}
			hand := s.semaphores(quick)[0]
			if s == loneSpin {
				if len(met) != 2 || len(met[ours]) != 2 || len(met[hand]) != 2 {
					t.Errorf("%s: %v, want Spillgate and one semaphore at 2x and 4x", s.name, met)
				}
				continue
			}
			if len(met[ours]) != 5 || len(met[hand]) != 5 && !(len(met[hand]) == 4 && !quick) || !quick && (len(met["third"]) != 3 || len(met["vegas:1s"]) != 1) {
				t.Errorf("%s, quick %v: too little is run: %v", s.name, quick, met)
			}
		}
	}
	if got := sleep.semaphores(false); strings.Join(got, " ") != "semaphore:4:20 semaphore:4:8 semaphore:4:4 semaphore:4:30 semaphore:8:20 semaphore:2:20" {
		t.Errorf("semaphores: %v", got)
	}
}

// result is a run of a second with such a goodput.
func result(share float64, told time.Duration, void string) *world.Report {
	return &world.Report{Measured: second, Void: void, Groups: []world.GroupReport{{Counts: world.Counts{Good: int(share * 1000)}, P99: 2 * ms, Told: told}}}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what        string
		change      func(mine, other []*world.Report)
		short, void int
		says        string
	}{
		{"the best at any load counts; runs that do not count, and others, are no bar", func(_, _ []*world.Report) {}, 0, 0, ""},
		{"one load falls short", func(m, _ []*world.Report) { m[1].Groups[0].Good = 800 }, 1, 0, "goodput, fast sleep at 4x: 0.8696 of the semaphore's best"},
		{"a disturbed run that reaches its bars does", func(m, _ []*world.Report) { m[0].Void = "late" }, 0, 0, ""},
		{"one that does not says nothing", func(m, _ []*world.Report) { m[0].Void, m[0].Groups[0].Good = "late", 100 }, 0, 1, "late"},
		{"but hides no miss of another load", func(m, _ []*world.Report) {
			m[0].Void, m[0].Groups[0].Good, m[1].Groups[0].Good = "late", 100, 100
		}, 1, 1, "goodput, fast sleep at 4x: 0.1087"},
		{"no run of the semaphore counts", func(m, s []*world.Report) {
			m[0].Groups[0].Good, m[1].Groups[0].Good, s[0].Void, s[1].Void = 3000, 3000, "late", "late"
		}, 0, 2, "fast sleep at 2x: too few runs of the semaphore"},
		{"which hides no miss beside them", func(_, s []*world.Report) { s[0].Void, s[1].Void = "late", "late" }, 2, 0, "goodput, fast sleep at 2x: 0.45"},
		{"refused clients know late", func(m, _ []*world.Report) { m[0].Groups[0].Told = 3 * ms }, 1, 0, "refused clients know, p99, fast sleep at 2x: 3 ms"},
	} {
		s := fastSleep
		of := func(policy string, load float64, r *world.Report) *cell {
			return &cell{setting: &s, load: load, Series: bed.Series{Policy: policy, Reports: []*world.Report{r}}, capacities: []float64{1000}}
		}
		mine := []*world.Report{result(0.9, ms, ""), result(0.9, ms, ""), result(0, ms, "")}
		other := []*world.Report{result(0.5, ms, ""), result(0.92, ms, ""), result(2, ms, "late"), result(3, ms, "")}
		c.change(mine, other)
		r := &experiment.Result{}
		judge(r, []*cell{of(ours, 2, mine[0]), of(ours, 4, mine[1]), of(ours, spike, mine[2]), of("semaphore:2:10", 2, other[0]),
			of("semaphore:2:4", 1, other[1]), of("semaphore:2:4", 2, other[2]), of("vegas", 1, other[3])})
		text := strings.Join(r.Void, "\n")
		for _, bar := range r.Short() {
			text += "\n" + bar.String()
		}
		if len(r.Short()) != c.short || len(r.Void) != c.void || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d bars missed, %d void, want %d and %d and %q:\n%s", c.what, len(r.Short()), len(r.Void), c.short, c.void, c.says, text)
		}
	}
}

// bins is a run of such goodput in bins of 100 ms.
func bins(good ...int) *world.Report {
	r := &world.Report{Bin: 100 * ms}
	for _, g := range good {
		r.Bins = append(r.Bins, world.Counts{Offered: 10, Good: g, Refused: 10 - g})
	}
	return r
}

func TestSettled(t *testing.T) {
	for _, c := range []struct {
		what string
		run  *world.Report
		want float64
	}{
		{"never below", bins(0, 9, 9, 9), 0},
		{"one bad bin after the step", bins(9, 1, 9, 9), float64(100 * ms)},
		{"a late relapse", bins(9, 9, 1, 9), float64(200 * ms)},
		{"bad to the end", bins(9, 9, 9, 1), math.Inf(1)},
	} {
		if got := settled(c.run, 100*ms, 80); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestShare(t *testing.T) {
	r := bins(5, 6, 10)
	if got := share(r, 100*ms, 300*ms, refused); got != 0.2 {
		t.Errorf("refused from 100 ms on: %g, want 0.2", got)
	}
	if got := share(r, 300*ms, second, refused); got != 0 {
		t.Errorf("of nothing: %g", got)
	}
}
