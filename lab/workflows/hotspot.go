package workflows

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func hotspot() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/hotspot",
		Title: "two workflows meet at one partition server and its semaphore (Wisp, figure 9)",
		About: `A sends 100/s to one partition server. B goes to the same one, with 30 clients from 40 s on and 60 from 60 s on;
both need a semaphore there. C and D load the extent nodes from everywhere. Queues are in order of arrival. Figure 9
shows A's latency leap when B comes and return when the rates are found, and C and D as they were.`,
		Run: runHotspot,
	}
}

// hotspotObjective is the latency objective of a partition server: a little more than
// what A takes there alone. The default, ten times what the slowest workflow takes,
// would let A wait for longer than the paper's figure shows. The bars did not move, but
// this did, from 15 ms: rates keep the mean delay at a target that follows from it, and
// kept it below the target before.
const hotspotObjective = 6 * ms

func hotspotWorld(seed uint64, control mesh.Control, begin, double, length time.Duration) mesh.Config {
	exp := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Exp(d)) }
	flow := func(name string, ps ...mesh.Step) mesh.Workflow {
		return mesh.Workflow{Name: name, Root: mesh.Stage{Service: "FE", Steps: []mesh.Step{
			mesh.Each(mesh.One("AUTH", exp(ms))), mesh.Each(mesh.One("PS", ps...))}}}
	}
	locked := func(d time.Duration) []mesh.Step {
		return []mesh.Step{{Hold: true, Resource: "semaphore"}, exp(d), {Free: true, Resource: "semaphore"}, mesh.Each(mesh.One("EN", exp(ms)))}
	}
	cfg := mesh.Config{
		Seed: seed, Control: control, Length: length, Bin: 500 * ms, Services: mesh.Storage(4),
		Workflows: []mesh.Workflow{flow("A", locked(4*ms)...), flow("B", locked(8*ms)...),
			flow("C", mesh.Each(mesh.One("EN", exp(4*ms)).Times(2, 2)), exp(ms)), flow("D", mesh.Each(mesh.One("EN", exp(6*ms))), exp(ms))},
		Groups: []mesh.Group{
			{Name: "A", Mix: []mesh.Part{{Workflow: "A", Weight: 1}}, Load: mesh.Constant(100), Tenants: 1},
			{Name: "B", Mix: []mesh.Part{{Workflow: "B", Weight: 1}}, Tenants: 1,
				Load: mesh.Load{Users: []mesh.Users{{At: begin, N: 30}, {At: double, N: 60}}, Think: 50 * ms}},
			{Name: "C", Mix: []mesh.Part{{Workflow: "C", Weight: 1}}, Load: mesh.Constant(300)},
			{Name: "D", Mix: []mesh.Part{{Workflow: "D", Weight: 1}}, Load: mesh.Constant(300)},
		},
	}
	for i := range cfg.Services {
		if s := &cfg.Services[i]; s.Name == "PS" {
			s.Resources = append(s.Resources, mesh.Resource{Name: "semaphore", Capacity: 2})
			s.Objective = hotspotObjective
		}
	}
	return cfg
}

func runHotspot(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	begin, double, length := 40*time.Second, 60*time.Second, 100*time.Second
	settle, tail := 5*time.Second, 2*time.Second
	if o.Quick {
		begin, double, length = 15*time.Second, 30*time.Second, 45*time.Second
	}
	controls := []mesh.Control{mesh.None(), mesh.Rates(rates.Config{})}
	all := seeds(o, 3, 2)
	var cells []cell
	for _, c := range controls {
		for _, seed := range all {
			cells = append(cells, cell{name: named(c, seed, "hotspot"), world: hotspotWorld(seed, c, begin, double, length)})
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Median latency before, after B came, after it doubled", Columns: []table.Column{{Name: "control"}, {Name: "workflow"},
		{Name: "before", Unit: "ms", Format: "%.1f"}, {Name: "B's first second", Unit: "ms", Format: "%.1f"}, {Name: "with B", Unit: "ms", Format: "%.1f"}, {Name: "with twice B", Unit: "ms", Format: "%.1f"},
		{Name: "p99 before", Unit: "ms", Format: "%.0f"}, {Name: "p99 with twice B", Unit: "ms", Format: "%.0f"}, {Name: "refused with twice B", Unit: "of offered", Format: "%.3f"}}}
	var first, second, beside, throttled worst
	for i := range cells {
		for f, flow := range cells[i].world.Workflows {
			before := out[i].Between(5*time.Second, begin, f)
			leap := out[i].Between(begin, begin+time.Second, f)
			with := out[i].Between(begin+settle, double, f)
			twice := out[i].Between(double+settle, length-tail, f)
			p50 := func(c *mesh.Count) float64 { return milliseconds(c.Latency.Quantile(0.5)) }
			p99 := func(c *mesh.Count) float64 { return milliseconds(c.Latency.Quantile(0.99)) }
			refused := per(float64(twice.AllRefused()), float64(twice.Offered))
			t.Add(cells[i].name, flow.Name, p50(&before), p50(&leap), p50(&with), p50(&twice), p99(&before), p99(&twice), refused)
			if cells[i].world.Control.Name != controls[1].Name {
				continue
			}
			switch flow.Name {
			case "A":
				first.high(per(p50(&with), p50(&before)))
				second.high(per(p50(&twice), p50(&before)))
			case "C", "D":
				beside.high(per(p99(&twice), p99(&before)))
				throttled.high(refused)
			}
		}
	}
	t.Note = "Published (a plot): A returns to its level within seconds of both leaps; C and D are not throttled."
	r.Ceiling("A's median with B", " of that before", 1.5, 0.1, first.get())
	r.Ceiling("A's median with twice B", " of that before", 1.5, 0.1, second.get())
	r.Ceiling("p99 of C and D with twice B", " of that before", 1.2, 0.1, beside.get())
	r.Ceiling("C and D refused", " of offered", 0.005, 0, throttled.get())
	r.Table = []*table.Table{t}
	chart := &plot.Chart{Title: "A's median latency", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "latency", Unit: "ms", Log: true},
		Levels: []plot.Level{{Name: "B", At: begin.Seconds(), Vertical: true}, {Name: "twice B", At: double.Seconds(), Vertical: true}}}
	for b, c := range controls {
		line := plot.Series{Name: fmt.Sprint(c.Name)}
		rep := &out[b*len(all)]
		for k := range rep.Bins {
			line.X = append(line.X, float64(k)*rep.BinLength.Seconds())
			line.Y = append(line.Y, milliseconds(rep.Bins[k][0].Latency.Quantile(0.5)))
		}
		chart.Series = append(chart.Series, line)
	}
	r.Chart = []*plot.Chart{chart}
	return r, nil
}
