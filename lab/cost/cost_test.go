package cost

import (
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The test binary is also the children's program.
func TestMain(m *testing.M) {
	Child()
	bed.Child()
	m.Run()
}

// What is spent on a request is that between the warm-up and the end of the load.
func TestSpent(t *testing.T) {
	w := abreast(3*time.Second, side{name: "a"}, side{name: "b"})
	for _, mistake := range w.Check() {
		t.Error(mistake)
	}
	look := func(service string, proxy bool, at time.Duration, begun int, used time.Duration) bed.Look {
		return bed.Look{Service: service, Proxy: proxy, At: at * time.Millisecond, Begun: begun, Used: used * time.Millisecond}
	}
	looks := []bed.Look{look("a", false, 900, 10, 80), look("a", false, 1000, 20, 100), look("a", false, 3000, 1020, 150), look("a", false, 3100, 1030, 900),
		look("a", true, 1000, 0, 50), look("a", true, 3000, 0, 250), look("b", false, 1000, 0, 0), look("b", false, 3000, 1, 1000)}
	if own, proxy := spent(w, looks, "a", false), spent(w, looks, "a", true); own != 50 || proxy != 200 {
		t.Errorf("%v and %v µs a request, want 50 by the service and 200 by its proxy", own, proxy)
	}
}

// Only batches that nobody disturbed count, if there are enough; a miss without them says
// nothing.
func TestDecisionsAreJudged(t *testing.T) {
	many := func(n int, ns float64) []float64 { return slices.Repeat([]float64{ns}, n) }
	for _, c := range []struct {
		what         string
		spent, quiet []float64
		measured     float64
		pass, void   bool
	}{
		{"fast, mostly disturbed", many(100, 500), many(10, 300), 300, true, false},
		{"slow, mostly disturbed", many(100, 600), many(10, 450), 450, false, false},
		{"slow and always disturbed", many(100, 500), many(9, 300), 500, false, true},
		{"fast though disturbed", many(100, 390), nil, 390, true, false},
	} {
		r := &experiment.Result{}
		(&decisions{kinds: []*kind{{name: "a decision", bar: true, spent: c.spent, quiet: c.quiet, pairsSpent: many(1, 4), allocated: many(1, 0)}}}).judge(r)
		if b := r.Bars[0]; b.Measured != c.measured || b.Pass != c.pass || len(r.Void) > 0 != c.void {
			t.Errorf("%s: %v, void %q", c.what, b, r.Void)
		}
	}
}

// A gain counts where the processors were left alone; where they hardly ever were, a miss says nothing.
func TestGainIsJudged(t *testing.T) {
	many := func(n int, ns float64) []float64 { return slices.Repeat([]float64{ns}, n) }
	for _, c := range []struct {
		what          string
		before, after []float64
		measured      float64
		void          bool
	}{
		{"left alone", many(4, 500), many(4, 510), 1.25, false},
		{"half of them disturbed afterwards", many(4, 500), append(many(2, 500), many(2, 900)...), 1.25, false},
		{"mostly disturbed before", append(many(3, 900), 500), many(4, 500), 1.25, true},
	} {
		r := &experiment.Result{}
		(&scale{one: many(4, 1500), two: many(4, 1200), bareOne: many(4, 300), bareTwo: many(4, 400), alone: many(4, 1000), before: c.before, after: c.after}).judge(r)
		if b := r.Bars[0]; b.Measured != c.measured || b.Pass || len(r.Void) > 0 != c.void {
			t.Errorf("%s: %v, void %q", c.what, b, r.Void)
		}
		if b := r.Bars[1]; b.Measured != 0.75 || b.Pass {
			t.Errorf("%s: without work %v, want a gain of 0.75 and a miss", c.what, b)
		}
	}
}

// Two goroutines get all their requests through the gate at once.
func TestGain(t *testing.T) {
	d, err := newDecisions()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for n := range 2 {
		if each, err := d.scale.batch(n+1, true, scaleWork*n); err != nil || each <= 0 {
			t.Errorf("%d at once: %v ns a request, %v", n+1, each, err)
		}
	}
}
