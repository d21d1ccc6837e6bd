package workflows

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func lowLatency() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/lowlatency",
		Title: "six workflows in a hurry beside bulk readers (Wisp, figure 8)",
		About: `40 to 200 bulk clients in a closed loop read twenty blocks a request; six workflows of 10 requests/s read one block
within 300 ms. No control, against rates with fair queues. Figure 8 shows about 80 % of the admitted in time and half of
the mean latency at 200 bulk clients.`,
		Run: runLowLatency,
	}
}

const hurried = 6

func lowLatencyWorld(seed uint64, control mesh.Control, bulk int, warmup, length time.Duration) mesh.Config {
	exp := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Exp(d)) }
	flow := func(name string, d mesh.Deadline, blocks int) mesh.Workflow {
		return mesh.Workflow{Name: name, Deadline: d, Root: mesh.Stage{Service: "FE", Steps: []mesh.Step{
			mesh.Each(mesh.One("AUTH", exp(ms))),
			mesh.Each(mesh.One("PS", exp(2*ms), mesh.All(mesh.One("EN", exp(5*ms)).Times(blocks, blocks)))),
		}}}
	}
	cfg := mesh.Config{Seed: seed, Services: mesh.Storage(2), Control: control, Warmup: warmup, Length: length}
	for i := range hurried {
		name := fmt.Sprint("hurry ", i)
		cfg.Workflows = append(cfg.Workflows, flow(name, mesh.Deadline{After: 300 * ms}, 1))
		cfg.Groups = append(cfg.Groups, mesh.Group{Name: name, Mix: []mesh.Part{{Workflow: name, Weight: 1}}, Load: mesh.Constant(10)})
	}
	cfg.Workflows = append(cfg.Workflows, flow("bulk", mesh.Deadline{}, 20))
	cfg.Groups = append(cfg.Groups, mesh.Group{Name: "bulk", Mix: []mesh.Part{{Workflow: "bulk", Weight: 1}}, Load: mesh.Closed(bulk, 300*ms)})
	return cfg
}

func runLowLatency(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	warmup, length := 10*time.Second, 70*time.Second
	clients, all := []int{40, 80, 120, 160, 200}, seeds(o, 3, 1)
	if o.Quick {
		clients, length = []int{40, 200}, 50*time.Second
	}
	controls := []mesh.Control{mesh.None(), mesh.RatesFair()}
	var cells []cell
	for _, n := range clients {
		for _, c := range controls {
			for _, seed := range all {
				cells = append(cells, cell{name: named(c, seed, fmt.Sprint(n, " bulk clients")), cost: float64(n), world: lowLatencyWorld(seed, c, n, warmup, length)})
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Workflows in a hurry, median of the seeds", Columns: []table.Column{{Name: "bulk clients"}, {Name: "control"},
		{Name: "mean latency", Unit: "ms", Format: "%.0f"}, {Name: "p99", Unit: "ms", Format: "%.0f"}, {Name: "in time", Unit: "of admitted", Format: "%.3f"},
		{Name: "refused", Unit: "of offered", Format: "%.3f"}, {Name: "bulk", Unit: "/s", Format: "%.1f"}}}
	late := &plot.Chart{Title: "Late requests of workflows in a hurry", X: plot.Axis{Label: "bulk clients"}, Y: plot.Axis{Label: "late", Unit: "of admitted"}}
	lines := make([]plot.Series, len(controls))
	for a, n := range clients {
		var base []float64
		for b, c := range controls {
			var means, p99, met, refused, bulk []float64
			for k := range all {
				rep := &out[(a*len(controls)+b)*len(all)+k]
				var good, missed, gone, offered float64
				sum, tail := 0.0, 0.0
				for f := range hurried {
					n := &rep.Workflows[f]
					good, missed = good+float64(n.Good), missed+float64(n.Late+n.GaveUp+n.TimedOut)
					gone, offered = gone+float64(n.AllRefused()), offered+float64(n.Ended())
					// What was given up took at least its deadline.
					sum += milliseconds(n.Latency.Mean())*float64(n.Good+n.Late) + 300*float64(n.GaveUp+n.TimedOut)
					tail = max(tail, milliseconds(n.Latency.Quantile(0.99)))
				}
				means, p99, met = append(means, per(sum, good+missed)), append(p99, tail), append(met, per(good, good+missed))
				refused = append(refused, per(gone, offered))
				bulk = append(bulk, float64(rep.Workflows[hurried].Good)/rep.Seconds)
			}
			t.Add(n, c.Name, middle(means), middle(p99), middle(met), middle(refused), middle(bulk))
			lines[b].Name = c.Name
			lines[b].X, lines[b].Y = append(lines[b].X, float64(n)), append(lines[b].Y, 1-middle(met))
			if b == 0 {
				base = means
				continue
			}
			if n != clients[len(clients)-1] {
				continue
			}
			var meets, faster, drops worst
			for k := range all {
				meets.low(met[k])
				faster.high(means[k] / base[k])
				drops.high(refused[k])
			}
			at := fmt.Sprintf(", %d bulk clients", n)
			r.Floor("in time"+at, " of admitted", 0.8, 0, meets.get())
			r.Ceiling("mean latency"+at, " of that without control", 0.5, 0.02, faster.get())
			r.Ceiling("refused"+at, " of offered", 0.2, 0, drops.get())
		}
	}
	late.Series = lines
	t.Note = "Published, 200 bulk clients: about 80 % of the admitted in time, mean latency halved."
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{late}
	return r, nil
}
