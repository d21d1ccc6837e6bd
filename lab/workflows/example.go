package workflows

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func example() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/quantile-example",
		Title: "the worked example of quantiles: rate at the entry, refusals and unused capacity",
		About: `a1 calls b1 twice, b1 calls c1 or c2, each of which calls e1 and e2 twice: w1 offers 400/s at e1 and at e2.
Another takes 100/s of each. e1 can do 500/s and has room for 400/s, e2 has room for 300/s: a third workflow takes
the rest in the paper, here e2 is a quarter slower. The rate at a1 follows from the quantile by hand (Wisp §4.1.2): 75/s at 0, 100/s at 1, and what lies between by interpolation.`,
		Run: runExample,
	}
}

// every returns evenly spaced arrivals.
func every(gap, phase, length time.Duration) mesh.Load {
	var at []time.Duration
	for t := phase; t < length; t += gap {
		at = append(at, t)
	}
	return mesh.Load{Trace: at}
}

// patient is a control whose clients and callers wait for every answer.
func patient(c mesh.Control) mesh.Control {
	c.GiveUp, c.Cancel = false, false
	return c
}

// exampleWorld is the graph of §4.1.2. Refusals do not cancel what runs beside
// them, as in the arithmetic of the example.
func exampleWorld(seed uint64, q float64, length time.Duration) mesh.Config {
	work := mesh.Work(mesh.Fixed(2 * ms))
	if q == 0 {
		q = -1
	}
	e := func(n int) mesh.Step { return mesh.All(mesh.One("e", work).Times(n, n)) }
	return mesh.Config{
		Seed:     seed,
		Services: []mesh.Service{{Name: "a"}, {Name: "b"}, {Name: "c", Processes: 2}, {Name: "e", Processes: 2}, {Name: "x"}},
		Workflows: []mesh.Workflow{
			{Name: "w1", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{work, mesh.All(
				mesh.One("b", work, mesh.Each(mesh.One("c", work, e(4)))).Times(2, 2))}}},
			{Name: "w2", Root: mesh.Stage{Service: "x", Steps: []mesh.Step{e(2)}}},
		},
		Groups: []mesh.Group{
			{Name: "w1", Mix: []mesh.Part{{Workflow: "w1", Weight: 1}}, Load: every(10*ms, 0, length)},
			{Name: "w2", Mix: []mesh.Part{{Workflow: "w2", Weight: 1}}, Load: every(10*ms, ms, length)},
		},
		Control: patient(mesh.Rates(rates.Config{Policy: rates.MaxMinFair, Headroom: -1, Quantile: q})),
		Faults:  []mesh.Fault{{Service: "e", Process: 1, Speed: 0.8}},
		Timeout: -1, Length: length, Bin: 500 * ms, RatesOf: []string{"a"},
	}
}

func runExample(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	length := 120 * time.Second
	if o.Quick {
		length = 60 * time.Second
	}
	oracle := []struct{ q, sigma, drops float64 }{{0, 75, 0}, {0.25, 81.25, 25}, {0.5, 87.5, 50}, {0.75, 93.75, 75}, {1, 100, 100}}
	var cells []cell
	for _, c := range oracle {
		cells = append(cells, cell{name: fmt.Sprintf("q = %v", c.q), world: exampleWorld(o.Seed, c.q, length), looks: []time.Duration{length / 2}})
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "The worked example", Columns: []table.Column{{Name: "quantile", Format: "%.2f"},
		{Name: "rate at a1", Unit: "/s", Format: "%.1f"}, {Name: "by hand", Unit: "/s", Format: "%.2f"},
		{Name: "refused at e", Unit: "/s", Format: "%.1f"}, {Name: "by hand", Unit: "/s", Format: "%.0f"},
		{Name: "unused at e", Unit: "/s", Format: "%.1f"}, {Name: "by hand", Unit: "/s", Format: "%.0f"}}}
	const e = 3
	half := (length / 2).Seconds()
	for i, c := range oracle {
		sigmas := rateOf(out[i].Report, "a", 0)
		sigma := mean(sigmas[len(sigmas)/2:])
		end, mid := &out[i].Services[e], &out[i].at[0].Services[e]
		drops := (sheds(end) - sheds(mid)) / half
		unused := 1000 * (1 - (2*end.Use[0] - mid.Use[0])) // all of it at e1
		t.Add(c.q, sigma, c.sigma, drops, c.drops, unused, 100-c.drops)
		at := fmt.Sprintf(", q = %v", c.q)
		r.Ceiling("rate at a1 off by"+at, "/s", 1, 0.5, math.Abs(sigma-c.sigma))
		r.Ceiling("refused at e off by"+at, "/s", 5, 2, math.Abs(drops-c.drops))
		r.Ceiling("unused at e off by"+at, "/s", 5, 2, math.Abs(unused-(100-c.drops)))
	}
	t.Note = "By hand: Wisp §4.1.2, and type 7 of Hyndman and Fan between its two printed quantiles."
	r.Table = []*table.Table{t}
	return r, nil
}
