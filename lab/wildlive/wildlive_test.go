package wildlive

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func TestMain(m *testing.M) {
	bed.Child() // does not return in the processes of a world
	m.Run()
}

// Every row describes a world, and has a bar that its own world can reach: light loads are
// below the capacity.
func TestRowsAreWorlds(t *testing.T) {
	names := map[string]bool{}
	for _, row := range rows() {
		w := *row.world
		if row.times > 0 {
			w.Clients = slices.Clone(w.Clients)
			w.Clients[0].Load = steady(row.times)
		}
		for _, mistake := range w.Check() {
			t.Errorf("%s: %v", row.name, mistake)
		}
		if names[row.name] || row.family == "" {
			t.Errorf("%q of family %q comes twice, or has no family", row.name, row.family)
		}
		names[row.name] = true
		if all := row.contenders(false, nil); all[0].Policy[:9] != "spillgate" || !strings.HasPrefix(all[len(all)-1].Policy, "none") {
			t.Errorf("%s: %v, expected Spillgate first and none last", row.name, all)
		}
	}
}

// report is of a run of ten seconds in which one group had such results.
func report(good, late, refused int, p50 time.Duration, void string) *world.Report {
	g := world.GroupReport{Name: "clients", P50: p50, P99: 2 * p50}
	g.Counts = world.Counts{Offered: good + late + refused, Good: good, Late: late, Refused: refused}
	return &world.Report{Measured: 10 * time.Second, Groups: []world.GroupReport{g}, Services: []world.ServiceReport{{}}, Bin: 100 * time.Millisecond, Void: void}
}

func TestJudge(t *testing.T) {
	row := rows()[0]
	three := func(policy string, reports ...*world.Report) run {
		return run{Series: bed.Series{Policy: policy, Reports: reports}}
	}
	runs := []run{
		three("spillgate", report(800, 0, 200, 30*ms, ""), report(940, 20, 40, 30*ms, ""), report(950, 0, 50, 30*ms, "")),
		three("semaphore", report(1000, 0, 0, 30*ms, ""), report(900, 0, 0, 30*ms, ""), report(2000, 0, 0, 30*ms, "")),
		three("none", report(500, 0, 0, 20*ms, "")),
	}
	verdicts := func() map[string]experiment.Bar {
		r := &experiment.Result{}
		row.judge(r, newTable(), runs)
		all := map[string]experiment.Bar{}
		for _, b := range r.Bars {
			all[strings.TrimPrefix(b.Name, row.name+": ")] = b
		}
		return all
	}
	// The medians: 94 of 100/s, 4 % refused of a light load, p50 1.5 times that of none.
	for name, want := range map[string]struct {
		measured float64
		pass     bool
	}{"goodput": {0.94, false}, "refused": {0.05, false}, "p50": {1.5, false}, "p99": {0.6, true}, "late": {0, true}} {
		b := verdicts()[name]
		if diff := b.Measured - want.measured; diff > 1e-9 || diff < -1e-9 || b.Pass != want.pass || b.Void != "" {
			t.Errorf("%s: %+v, want %+v", name, b, want)
		}
	}
	// A disturbed run of ours explains a miss, one of the semaphore's does not.
	runs[1].Reports[0].Void = "stolen"
	if b := verdicts()["goodput"]; b.Void != "" {
		t.Errorf("void by the semaphore's run: %+v", b)
	}
	runs[0].Reports[0].Void = "stolen"
	if b := verdicts()["goodput"]; b.Void == "" {
		t.Errorf("not void by our run: %+v", b)
	}
}

func TestTheSecondAfterAChange(t *testing.T) {
	r := report(0, 0, 0, ms, "")
	r.Bins = make([]world.Counts, 40)
	for i := range r.Bins {
		r.Bins[i].Good = i
	}
	row := row{change: second}
	if got, want := row.after(r), float64(10+19)/2*10; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
