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

func hops() experiment.Experiment {
	return experiment.Experiment{
		Name:  "compose/hops",
		Title: "goodput over several hops at twice the capacity, against credits, DAGOR and Rajomon",
		About: `Call graphs at twice what their busiest resource can do: the chain of compose/leaf; two workflows of which one
wastes what the other needs when it is refused late; a fan-out, of which all parts must succeed; random graphs of
forty services. Rajomon's authors publish 45 % more goodput than the best of its peers at such loads; here it is our
own writing of it, tuned for the chain.`,
		Run: runHops,
	}
}

// sharedTier is a service a that two workflows need: "far" goes on to a slow leaf,
// which can do a quarter of what it offers, "near" does not.
func sharedTier(seed uint64, control mesh.Control, length time.Duration) mesh.Config {
	work := mesh.Work(mesh.Exp(stageTime))
	service := func(name string, workers int) mesh.Service {
		return mesh.Service{Name: name, Processes: 2, Resources: []mesh.Resource{{Name: "workers", Capacity: workers}}}
	}
	// a: 8,000/s; c: 1,000/s.
	return mesh.Config{Seed: seed, Control: control, Length: length, Warmup: 3 * time.Second,
		Services: []mesh.Service{service("a", 8), service("b", 8), service("c", 1)},
		Workflows: []mesh.Workflow{
			{Name: "far", Deadline: mesh.Deadline{After: budget}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{work, mesh.Each(mesh.One("b", work, mesh.Each(mesh.One("c", work))))}}},
			{Name: "near", Deadline: mesh.Deadline{After: budget}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{work}}},
		},
		Groups: []mesh.Group{
			{Name: "far", Clients: 8, Mix: []mesh.Part{{Workflow: "far", Weight: 1}}, Load: mesh.Constant(8000)},
			{Name: "near", Clients: 8, Mix: []mesh.Part{{Workflow: "near", Weight: 1}}, Load: mesh.Constant(8000)},
		}}
}

// fan calls four services at once, of which one can do the least; all must answer.
func fan(seed uint64, control mesh.Control, length time.Duration) mesh.Config {
	work := mesh.Work(mesh.Exp(stageTime))
	cfg := mesh.Config{Seed: seed, Control: control, Length: length, Warmup: 3 * time.Second,
		Services: []mesh.Service{{Name: "a", Processes: 2, Resources: []mesh.Resource{{Name: "workers", Capacity: 8}}}},
		Groups:   []mesh.Group{{Clients: 8, Load: mesh.Constant(4000)}}}
	var calls []mesh.Call
	for i := range 4 {
		name := fmt.Sprint("leaf-", i)
		workers := 3
		if i == 0 {
			workers = 2
		}
		cfg.Services = append(cfg.Services, mesh.Service{Name: name, Processes: 2, Resources: []mesh.Resource{{Name: "workers", Capacity: workers}}})
		calls = append(calls, mesh.One(name, work))
	}
	cfg.Workflows = []mesh.Workflow{{Name: "w", Deadline: mesh.Deadline{After: budget}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{work, mesh.All(calls...)}}}}
	return cfg
}

func runHops(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	length := 13 * time.Second
	all, graphs := seeds(o, 3, 1), uint64(5)
	if o.Quick {
		length, graphs = 8*time.Second, 3
	}
	worlds := []struct {
		name string
		make func(seed uint64, c mesh.Control) mesh.Config
	}{
		{"chain", func(seed uint64, c mesh.Control) mesh.Config {
			w := chain(seed, c, 3, []mesh.Change{{Rate: 2 * leafCapacity()}}, length)
			w.Warmup = 3 * time.Second
			return w
		}},
		{"shared", func(seed uint64, c mesh.Control) mesh.Config { return sharedTier(seed, c, length) }},
		{"fan", func(seed uint64, c mesh.Control) mesh.Config { return fan(seed, c, length) }},
	}
	for g := range graphs {
		worlds = append(worlds, struct {
			name string
			make func(seed uint64, c mesh.Control) mesh.Config
		}{fmt.Sprint("random ", g+1), func(seed uint64, c mesh.Control) mesh.Config {
			w := mesh.Random(1000*seed+g, mesh.Graph{Services: 40, Workflows: 8, Load: 2})
			w.Control, w.Warmup, w.Length = c, 3*time.Second, length
			return w
		}})
	}
	controls := []mesh.Control{whole(), mesh.CreditsRates(), mesh.Rates(rates.Config{}), mesh.Credits(), mesh.Priorities(), mesh.Market(), mesh.Timeouts()}
	const ours = 0
	rivals := map[int]string{3: "credits alone", 4: "DAGOR", 5: "Rajomon"}
	var cells []cell
	for _, w := range worlds {
		for _, c := range controls {
			for _, seed := range all {
				cells = append(cells, cell{name: named(c, seed, w.name), world: w.make(seed, c)})
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	good, waste := &table.Table{Title: "Goodput of all layers together = 1", Columns: []table.Column{{Name: "control"}}}, &table.Table{Title: "Wasted work", Columns: []table.Column{{Name: "control"}}}
	for _, w := range worlds {
		good.Columns = append(good.Columns, table.Column{Name: w.name, Format: "%.3f"})
		waste.Columns = append(waste.Columns, table.Column{Name: w.name, Format: "%.3f"})
	}
	good.Columns = append(good.Columns, table.Column{Name: "geometric mean", Format: "%.3f"})
	goodput := func(w, c, k int) float64 {
		rep := &out[(w*len(controls)+c)*len(all)+k]
		return float64(rep.Total.Good) / rep.Seconds
	}
	means := make([]float64, len(controls))
	for c := range controls {
		row, wasted := []any{controls[c].Name}, []any{controls[c].Name}
		logs := 0.0
		for w := range worlds {
			var ratio, lost []float64
			for k := range all {
				ratio = append(ratio, per(goodput(w, c, k), goodput(w, ours, k)))
				lost = append(lost, out[(w*len(controls)+c)*len(all)+k].Total.WastedShare())
			}
			logs += math.Log(math.Max(mean(ratio), 1e-6))
			row, wasted = append(row, mean(ratio)), append(wasted, mean(lost))
		}
		means[c] = math.Exp(logs / float64(len(worlds)))
		good.Add(append(row, means[c])...)
		waste.Add(wasted...)
	}
	for c := range controls {
		if name, ok := rivals[c]; ok {
			r.Floor("goodput over all graphs", " of "+name, 1, 0, 1/means[c])
		}
	}
	good.Note = fmt.Sprintf("Published: Rajomon 45 %% over the best of its peers. Here it has %+.0f %% over DAGOR and %+.0f %% over credits alone.",
		100*(means[5]/means[4]-1), 100*(means[5]/means[3]-1))
	r.Table = []*table.Table{good, waste}
	return r, nil
}
