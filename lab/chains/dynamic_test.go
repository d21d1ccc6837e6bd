package chains

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Half as long service times make everything half as long and the rates double.
func TestDynamicFormScales(t *testing.T) {
	f := dynamicForm{mean: steady / 2, begins: 15, ends: 55, stops: 70}
	s, err := Setting{Mean: f.mean}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l := f.load(s, 1)
	if err := l.validate(); err != nil {
		t.Fatal(err)
	}
	if l.duration() != 35*time.Second || l.Singles.Duration() != l.Chains.Duration() || l.Window != 500*ms {
		t.Errorf("lasts %v and %v in windows of %v, want 35 s in windows of 500 ms", l.Chains.Duration(), l.Singles.Duration(), l.Window)
	}
	for at, want := range map[time.Duration]float64{7 * time.Second: 0, 8 * time.Second: 80, 27 * time.Second: 80, 28 * time.Second: 0} {
		if got := l.Chains.RateAt(at); got != want {
			t.Errorf("%v chains a second at %v, want %v", got, at, want)
		}
	}
	if got := l.Singles.RateAt(0); got != 320 {
		t.Errorf("%v singles a second, want 320", got)
	}
}

// scriptedRuns are a run of fifo, static shares and share each, with latencies in
// ms at the form's service time of 5 ms.
func scriptedRuns(f dynamicForm) [][]trialed {
	begun := time.Unix(1000, 0)
	one := func(chains, singles time.Duration, weights ...float64) []trialed {
		var x trialed
		x.Begun = begun
		for i := range f.stops {
			c := Stretch{}
			if i >= f.begins && i < f.ends {
				c = Stretch{Offered: 10, Served: 10, Mean: chains}
			}
			x.Class[work.Interactive].Series = append(x.Class[work.Interactive].Series, c)
			x.Class[work.Default].Series = append(x.Class[work.Default].Series, Stretch{Offered: 10, Served: 10, Mean: singles})
		}
		// Of 400 singles while there are chains, each waited 4 ms more than in one queue.
		x.counts = Counts{Arrived: 5, Finished: 5, Waited: time.Second, FIFO: time.Second,
			Class: [work.NumClasses]Waits{work.Default: {1600 * ms, 0}, work.Interactive: {0, 10 * time.Second}}}
		var path []Weighed
		for i, w := range weights {
			path = append(path, Weighed{At: begun.Add(f.seconds(f.begins + i)), Weight: w})
		}
		x.weights = [][]Weighed{path}
		return []trialed{x}
	}
	return [][]trialed{one(100*ms, 25*ms), one(125*ms, 125*ms), one(75*ms, 30*ms, 0.55, 0.9, 0.67, 0.6)}
}

func TestDynamicReport(t *testing.T) {
	f := dynamicForm{mean: steady / 2, begins: 15, ends: 55, stops: 70}
	r := &experiment.Result{}
	f.report(r, []Discipline{{Name: "fifo"}, {Name: "static"}, {Name: "share"}}, scriptedRuns(f))
	want := map[string]float64{
		"settled after chains began": 2, "overshoot": 50, "chains gain, 10 s later on": 25,
		"singles lose while there are chains": 100 * 4. / 26,
		"singles beyond the law's least":      0, "the better-off class": 0.75, "singles 10 s after the chains' end": 1.2,
		"static shares, the better-off class, 10 s later on": 1.25,
	}
	for _, b := range r.Bars {
		if w, ok := want[b.Name]; !ok || math.Abs(b.Measured-w) > 1e-9 {
			t.Errorf("%s: %v, want %v", b.Name, b.Measured, w)
		}
		delete(want, b.Name)
	}
	if len(want) > 0 || len(r.Chart) != 3 || len(r.Table) != 1 {
		t.Errorf("missing: %v; %d charts, %d tables", want, len(r.Chart), len(r.Table))
	}
	// Latencies are shown at a service time of 10 ms.
	if got := f.latency(scriptedRuns(f)[0], work.Interactive, f.begins, f.ends); math.Abs(got-200) > 1e-9 {
		t.Errorf("chains with fifo: %v ms, want 200", got)
	}
}

func TestBeyondLaw(t *testing.T) {
	x := trialed{counts: Counts{Arrived: 2, Finished: 2, Waited: 11 * time.Second, FIFO: 10 * time.Second}}
	x.Class[work.Default].Series = []Stretch{{Served: 4, Mean: time.Second}, {Served: 1, Mean: 2 * time.Second}}
	// One second was wasted. Without it, singles would have taken five of their six.
	if got := beyondLaw([]trialed{x}); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("%v beyond the law, want 0.2", got)
	}
	x.counts.Abandoned = 1
	if got := beyondLaw([]trialed{x, x}); !math.IsNaN(got) {
		t.Errorf("callers gave up: %v, want none", got)
	}
}

// Two beds at once: the weights of share are told, the time series has the load's
// windows, and a run that is cut off is an error.
func TestAbreast(t *testing.T) {
	ctx := processes(t)
	s := Setting{Mean: 2 * ms, Seed: 1}
	l := lightLoad(1500 * time.Millisecond)
	l.Window = 300 * ms
	trials := []trial{{"fifo", s, Discipline{Kind: FIFO}, l}, {"share", s, Discipline{Kind: Share}, l}}
	out, err := abreastOnce(ctx, trials)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range out {
		offered := 0
		for _, w := range x.Class[work.Default].Series {
			offered += w.Offered
		}
		if n := len(x.Class[work.Default].Series); n != 5 || offered == 0 || offered != x.Class[work.Default].Offered || x.Begun.IsZero() {
			t.Errorf("%s: %d windows with %d of %d requests, begun %v", trials[i].name, n, offered, x.Class[work.Default].Offered, x.Begun)
		}
	}
	if len(out[0].weights) != 4 || len(out[0].weights[0]) != 0 {
		t.Errorf("fifo decided %v", out[0].weights)
	}
	// A period takes a hundred service times.
	if len(out[1].weights) != 4 || len(out[1].weights[0]) < 3 || out[1].weights[3][0].Reason == "" {
		t.Errorf("share decided %v", out[1].weights)
	}

	l.Chains, l.Singles = openloop.Steady(40, time.Minute), openloop.Steady(160, time.Minute)
	trials[0].load = l
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := abreastOnce(ctx, trials); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	trials[1].by.Kind = "lifo"
	_, err = abreastOnce(processes(t), trials)
	expect(t, err, "share: ", `Kind is "lifo"`)
}
