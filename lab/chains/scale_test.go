package chains

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

// What the law allows, from the formulas by hand: at 85 % load priority makes 67/96 of
// the chains' latency go away, and nearly nothing at 8.5 %.
func TestAllowed(t *testing.T) {
	s, err := Setting{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		clients int
		want    float64
	}{
		{500, 1 - (1+0.85/(1-0.2125))*(1-0.85)},
		{400, 1 - (1+0.68/(1-0.17))*(1-0.68)},
		{50, 1 - (1+0.085/(1-0.02125))*(1-0.085)},
	} {
		if got := (crowd{clients: c.clients}).allowed(s); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d clients: %v, want %v", c.clients, got, c.want)
		}
	}
	chains, singles := crowd{clients: 500}.rates(s)
	if visits := 4*chains + singles; math.Abs(visits-340) > 1e-9 || math.Abs(singles-12*chains) > 1e-9 {
		t.Errorf("%v chains and %v singles a second, want 340 visits and 12 to 1", chains, singles)
	}
	if l := (crowd{500, true}).load(s, time.Minute, time.Second, 1); l.validate() != nil || l.Patience[work.Default] != 250*ms || l.Patience[work.Interactive] != 2*time.Second {
		t.Errorf("%+v", l)
	}
}

func TestScaleReport(t *testing.T) {
	s, err := Setting{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ran := func(chains, singles time.Duration, gaveUp int, chainsSaved time.Duration) trialed {
		var x trialed
		for class, mean := range [work.NumClasses]time.Duration{work.Default: singles, work.Interactive: chains} {
			x.Class[class] = ClassResult{Offered: 100, Served: 100 - gaveUp, Abandoned: gaveUp, Mean: mean, Series: []Stretch{{Served: 100, Mean: mean}}}
		}
		x.counts = Counts{Arrived: 1, Finished: 1, Waited: 10, FIFO: 10, Class: [work.NumClasses]Waits{work.Interactive: {0, chainsSaved}, work.Default: {chainsSaved, 0}}}
		return x
	}
	few, many, leaving := crowd{50, false}, crowd{500, false}, crowd{500, true}
	got := map[crowd][2][]trialed{
		few:     {{ran(40*ms, 10*ms, 0, 0)}, {ran(39*ms, 10*ms, 0, 100*ms)}},
		many:    {{ran(200*ms, 60*ms, 0, 0), ran(300*ms, 60*ms, 0, 0)}, {ran(100*ms, 72*ms, 0, 5*time.Second), ran(100*ms, 72*ms, 0, 5*time.Second)}},
		leaving: {{ran(100*ms, 30*ms, 5, 0)}, {ran(80*ms, 33*ms, 7, 0)}},
	}
	r := &experiment.Result{}
	scaleReport(r, s, []crowd{few, many, leaving}, got)
	want := map[string]float64{
		"chains gain where the law allows 35 %, worst of 1": 60, "singles lose, worst": 20, "singles beyond the law's least, worst": 0,
		"the better-off class, worst": 39. / 40, "singles that give up beyond FIFO's": 2,
	}
	for _, b := range r.Bars {
		if w, ok := want[b.Name]; !ok || math.Abs(b.Measured-w) > 1e-9 {
			t.Errorf("%s: %v, want %v", b.Name, b.Measured, w)
		}
		delete(want, b.Name)
	}
	if len(want) > 0 || len(r.Chart) != 2 || len(r.Table) != 1 || len(r.Chart[0].Series) != 2 || len(r.Chart[0].Series[0].X) != 2 {
		t.Errorf("missing: %v; charts %+v", want, r.Chart)
	}
}
