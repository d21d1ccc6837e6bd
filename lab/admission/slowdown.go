package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func slowdown() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/slowdown",
		Title: "a server that becomes 4 times slower, and fast again, against the hand-set optimum",
		About: `100 clients send at 0.9 times the capacity. The server becomes 4 times slower, so that it is offered 3.6
times what it can do, and later fast again. Goodput is counted from 5 s after each change, for 5 s, and compared
with the best of a sweep of hand-set slots and queues in the same phase. In Go, failsafe-go kept about 40 % and
its queue mode nothing.`,
		Run: runSlowdown,
	}
}

func runSlowdown(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	const slow, fast, length = 10 * time.Second, 20 * time.Second, 30 * time.Second
	shapes := []worlds.Shape{worlds.Exponential, worlds.Constant, worlds.Bimodal}
	s := setting()
	rivals := []mesh.Control{contenders.Gradient2(s), contenders.Vegas(s), contenders.AIMD(s), contenders.DAGOR(s), contenders.SEDA(s),
		contenders.Protego(s), contenders.CoDel(s), contenders.None(s)}
	var hand []mesh.Control
	for _, queue := range []int{0, cores / 2, cores, 2 * cores} {
		p := contenders.Semaphore(s, cores, queue)
		p.Name = fmt.Sprintf("%d slots, queue %d", cores, queue)
		hand = append(hand, p)
	}
	p := contenders.FIFO(s)
	p.Name = fmt.Sprintf("%d slots, deadline fifo", cores)
	hand = append(hand, p)
	if o.Quick {
		rivals = rivals[:6]
	} else {
		rivals = append(rivals, contenders.Windowed(s)...)
	}

	var cells []experiment.Cell
	var shapeOf []worlds.Shape
	add := func(p mesh.Control, shape worlds.Shape) int {
		c := server(o.Seed, p, shape, 0.9, length)
		c.Bin = 250 * time.Millisecond
		c.World.Faults = []world.Fault{{At: slow, For: fast - slow, Service: c.World.Services[0].Name, Slower: 4}}
		cells, shapeOf = append(cells, c), append(shapeOf, shape)
		return len(cells) - 1
	}
	ours, best := map[worlds.Shape]int{}, map[worlds.Shape][]int{}
	for _, shape := range shapes {
		ours[shape] = add(contenders.Spillgate(s), shape)
		for _, p := range hand {
			best[shape] = append(best[shape], add(p, shape))
		}
	}
	for _, p := range rivals {
		add(p, worlds.Exponential)
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}

	goodput := func(i int, from time.Duration) float64 {
		c := reports[i].Between(from+5*time.Second, from+10*time.Second)
		return float64(c.Good) / 5
	}
	optimum := func(shape worlds.Shape, from time.Duration) float64 {
		most := 0.0
		for _, i := range best[shape] {
			most = max(most, goodput(i, from))
		}
		return most
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Goodput from 5 to 10 s after each change", Columns: []table.Column{{Name: "policy"}, {Name: "service"}, {Name: "fast at first", Unit: "/s"},
		{Name: "4x slower", Unit: "/s"}, {Name: "of the optimum", Format: "%.3f"}, {Name: "fast again", Unit: "/s"}, {Name: "of the optimum", Format: "%.3f"}, {Name: "p99 slow", Unit: "ms"}}}
	chart := &plot.Chart{Title: "Goodput through a slowdown, exponential service", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "goodput", Unit: "requests/s"},
		Spans: []plot.Span{{Name: "4 times slower", From: slow.Seconds(), To: fast.Seconds()}}}
	for i := range cells {
		shape := shapeOf[i]
		slowed := reports[i].Between(slow+5*time.Second, slow+10*time.Second)
		a, b := goodput(i, slow)/optimum(shape, slow), goodput(i, fast)/optimum(shape, fast)
		t.Add(cells[i].Control.Name, shape.String(), goodput(i, 0), goodput(i, slow), a, goodput(i, fast), b, slowed.Latency.Quantile(0.99).Seconds()*1e3)
		if shape == worlds.Exponential {
			line := plot.Series{Name: cells[i].Control.Name}
			for k := range reports[i].Bins {
				line.X = append(line.X, (time.Duration(k) * reports[i].BinLength).Seconds())
				line.Y = append(line.Y, float64(reports[i].Bins[k][0].Good)/reports[i].BinLength.Seconds())
			}
			chart.Series = append(chart.Series, line)
		}
		if i == ours[shape] {
			r.Floor(fmt.Sprintf("goodput 5 s after the slowdown, %v", shape), " of the optimum", 0.9, 0.02, a)
			r.Floor(fmt.Sprintf("goodput 5 s after recovery, %v", shape), " of the optimum", 0.9, 0.02, b)
		}
	}
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}
