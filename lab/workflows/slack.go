package workflows

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func slack() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/slack",
		Title: "equal deadlines and unequal work to come: slack against deadline",
		About: `Two workflows with the same deadline meet at one server; one of them has two and a half times as much to do
afterwards, elsewhere. By deadline both are the same, by slack those go first that are in a hurry (Wisp, figure 4). No
rates, so that the order alone decides.`,
		Run: runSlack,
	}
}

func slackWorld(seed uint64, order schedule.Order, rate float64, length time.Duration) mesh.Config {
	w := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Fixed(d)) }
	deadline := mesh.Deadline{After: 60 * ms}
	c := mesh.Bare(order.String(), admission.Config{Schedule: schedule.Config{Order: order}})
	return mesh.Config{Seed: seed, Control: c, Warmup: 5 * time.Second, Length: length,
		Services: []mesh.Service{{Name: "a"}, {Name: "b", Resources: []mesh.Resource{{Name: "workers", Capacity: 4}}}},
		Workflows: []mesh.Workflow{
			{Name: "short", Deadline: deadline, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{w(10 * ms)}}},
			{Name: "long", Deadline: deadline, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{w(10 * ms), mesh.Each(mesh.One("b", w(25*ms)))}}},
		},
		Groups: []mesh.Group{{Load: mesh.Constant(rate)}}}
}

func runSlack(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	length := 605 * time.Second
	if o.Quick {
		length = 205 * time.Second
	}
	orders := []schedule.Order{schedule.FIFO, schedule.EDF, schedule.LSTF}
	rates := []float64{60, 70, 80, 85, 90, 95}
	all := seeds(o, 5, 3)
	var cells []cell
	for _, rate := range rates {
		for _, order := range orders {
			for _, seed := range all {
				cells = append(cells, cell{name: fmt.Sprintf("%v, %v/s, seed %d", order, rate, seed), world: slackWorld(seed, order, rate, length)})
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Requests in time, mean of the seeds", Columns: []table.Column{{Name: "offered", Unit: "of capacity", Format: "%.2f"}, {Name: "order"},
		{Name: "in time", Unit: "of offered", Format: "%.4f"}, {Name: "short ones", Format: "%.4f"}, {Name: "long ones", Format: "%.4f"}}}
	chart := &plot.Chart{Title: "Requests in time", X: plot.Axis{Label: "offered load", Unit: "of capacity"}, Y: plot.Axis{Label: "in time", Unit: "of offered"}}
	lines := make([]plot.Series, len(orders))
	for a, rate := range rates {
		good := make([][]float64, len(orders))
		for b, order := range orders {
			var short, long []float64
			for k := range all {
				rep := &out[(a*len(orders)+b)*len(all)+k]
				share := func(c *mesh.Count) float64 { return per(float64(c.Good), float64(c.Ended())) }
				good[b] = append(good[b], share(&rep.Total))
				short, long = append(short, share(&rep.Workflows[0])), append(long, share(&rep.Workflows[1]))
			}
			t.Add(rate/100, order.String(), mean(good[b]), mean(short), mean(long))
			lines[b].Name = order.String()
			lines[b].X, lines[b].Y = append(lines[b].X, rate/100), append(lines[b].Y, mean(good[b]))
		}
		if rate < 80 {
			continue
		}
		var better worst
		for k := range all {
			better.low(good[2][k] / good[1][k])
		}
		r.Floor(fmt.Sprintf("in time by slack, load %.2f", rate/100), " of that by deadline", 1.01, 0, better.get())
	}
	chart.Series = lines
	t.Note = "Published: figure 4 by hand; table 3 shows slack ahead of deadlines by up to 15 % at p99."
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}
