package workflows

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The arrivals of two services for language models, excerpts of the Azure LLM
// inference trace 2023, published by Microsoft in the Azure Public Dataset under
// CC-BY-4.0 (https://creativecommons.org/licenses/by/4.0/).
var (
	//go:embed testdata/azure-llm-code.csv
	codeTrace []byte
	//go:embed testdata/azure-llm-conv.csv
	chatTrace []byte
)

func trace() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/trace",
		Title: "arrivals as they were: a bursty and a smooth trace, compressed in time",
		About: `A gateway asks a store for context and then one of four model servers for an answer, within two seconds. Requests
come when those of the Azure LLM inference trace of 2023 did (Microsoft, Azure Public Dataset, CC-BY-4.0), code completion
in bursts, chats smoothly, so much faster that they amount to 0.6 and 1.5 times the capacity. At 0.6 times the bursts
still overload.`,
		Run: runTrace,
	}
}

const (
	modelServers = 4
	modelWorkers = 2
	modelTime    = 200 * ms
)

func traceWorld(seed uint64, control mesh.Control, at []time.Duration) mesh.Config {
	exp := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Exp(d)) }
	return mesh.Config{Seed: seed, Control: control, Length: at[len(at)-1] + 3*time.Second,
		Services: []mesh.Service{{Name: "gateway", Processes: 2}, {Name: "store", Processes: 2},
			{Name: "model", Processes: modelServers, Resources: []mesh.Resource{{Name: "workers", Capacity: modelWorkers}}}},
		Workflows: []mesh.Workflow{{Name: "complete", Deadline: mesh.Deadline{After: 2 * time.Second}, Root: mesh.Stage{Service: "gateway", Steps: []mesh.Step{
			exp(2 * ms), mesh.Each(mesh.One("store", exp(20*ms))), mesh.Each(mesh.One("model", exp(modelTime)))}}}},
		Groups: []mesh.Group{{Clients: 4, Load: mesh.Load{Trace: at}}}}
}

func runTrace(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	all := seeds(o, 5, 2)
	controls := []mesh.Control{mesh.None(), mesh.Timeouts(), mesh.Priorities(), mesh.Market(), mesh.Rates(rates.Config{}), mesh.Credits(), whole()}
	loads := []float64{0.6, 1.5}
	capacity := modelServers * modelWorkers / modelTime.Seconds()
	traces := []struct {
		name string
		csv  []byte
	}{{"code", codeTrace}, {"chat", chatTrace}}
	var (
		cells  []cell
		charts []*plot.Chart
	)
	for _, tr := range traces {
		real, err := mesh.ReadTrace(bytes.NewReader(tr.csv), 1)
		if err != nil {
			return nil, err
		}
		pace := float64(len(real)) / real[len(real)-1].Seconds()
		for _, load := range loads {
			at, err := mesh.ReadTrace(bytes.NewReader(tr.csv), load*capacity/pace)
			if err != nil {
				return nil, err
			}
			if load == loads[0] {
				charts = append(charts, arrivals(tr.name, at, capacity))
			}
			for _, c := range controls {
				for _, seed := range all {
					cells = append(cells, cell{name: named(c, seed, tr.name), world: traceWorld(seed, c, at)})
				}
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick, Chart: charts}
	t := &table.Table{Title: "Answers in time, mean of the seeds", Columns: []table.Column{{Name: "trace"}, {Name: "mean load", Unit: "of capacity", Format: "%.1f"}, {Name: "control"},
		{Name: "in time", Unit: "of offered", Format: "%.3f"}, {Name: "refused", Unit: "of offered", Format: "%.3f"}, {Name: "late or given up", Unit: "of offered", Format: "%.3f"},
		{Name: "wasted", Unit: "of work", Format: "%.3f"}, {Name: "p99", Unit: "ms", Format: "%.0f"}}}
	i := 0
	for _, tr := range traces {
		for _, load := range loads {
			best, ours, waste := 0.0, 0.0, 0.0
			for b, c := range controls {
				var good, refused, late, wasted, p99 []float64
				for range all {
					n := &out[i].Total
					i++
					offered := float64(n.Offered)
					good, refused = append(good, per(float64(n.Good), offered)), append(refused, per(float64(n.AllRefused()), offered))
					late = append(late, per(float64(n.Late+n.GaveUp+n.TimedOut), offered))
					wasted, p99 = append(wasted, n.WastedShare()), append(p99, milliseconds(n.Latency.Quantile(0.99)))
				}
				t.Add(tr.name, load, c.Name, mean(good), mean(refused), mean(late), mean(wasted), mean(p99))
				if b < len(controls)-1 {
					best = max(best, mean(good))
				} else {
					ours, waste = mean(good), mean(wasted)
				}
			}
			at := fmt.Sprintf(", %s at %v", tr.name, load)
			r.Floor("in time together"+at, " of the best other", 0.95, 0.01, per(ours, best))
			r.Ceiling("wasted together"+at, " of work", 0.1, 0.02, waste)
		}
	}
	t.Note = "Arrivals: Azure LLM inference trace 2023, Microsoft, CC-BY-4.0. The work is synthetic."
	r.Table = []*table.Table{t}
	return r, nil
}

// arrivals draws the arrivals of a trace.
func arrivals(name string, at []time.Duration, capacity float64) *plot.Chart {
	line := plot.Series{Name: name}
	n := make([]float64, int(at[len(at)-1]/time.Second)+1)
	for _, a := range at {
		n[a/time.Second]++
	}
	for i, v := range n {
		line.X, line.Y = append(line.X, float64(i)), append(line.Y, v/capacity)
	}
	return &plot.Chart{Title: "Arrivals, trace " + name + " (Azure LLM inference 2023, CC-BY-4.0)", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "load", Unit: "of capacity"},
		Series: []plot.Series{line}, Levels: []plot.Level{{Name: "capacity", At: 1}}}
}
