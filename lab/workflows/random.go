package workflows

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func random() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/random",
		Title: "hundreds of services at random: what must hold anywhere",
		About: `Random call graphs with fan-out, shared stores and caches, at half and at twice what their busiest resource can do.
The books are recounted now and then: requests, units, tickets, outstanding calls, announced shares. Half loaded, the
layers together must cost nothing; overloaded, they must beat doing nothing. And a thousand services with a hundred
workflows must simulate faster than real time on one core.`,
		Run: runRandom,
	}
}

func runRandom(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	services, workflows, length := 300, 30, 8*time.Second
	all := seeds(o, 6, 2)
	if o.Quick {
		services, workflows, length = 200, 20, 6*time.Second
	}
	controls := []mesh.Control{mesh.Timeouts(), whole()}
	loads := []float64{0.5, 2}
	var (
		cells []cell
		books []error // per cell
	)
	for _, load := range loads {
		for _, seed := range all {
			for _, c := range controls {
				w := mesh.Random(seed, mesh.Graph{Services: services, Workflows: workflows, Load: load, Depth: 5})
				w.Control, w.Warmup, w.Length = c, 2*time.Second, length
				cells = append(cells, cell{name: named(c, seed, fmt.Sprintf("load %v", load)), world: w, cost: load})
			}
		}
	}
	books = make([]error, len(cells))
	for i := range cells {
		events := 0
		cells[i].world.Event = func(w *mesh.World) {
			if events++; events%auditEvery == 0 && books[i] == nil {
				books[i] = w.Audit()
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(books...); err != nil {
		return nil, fmt.Errorf("the books of a world are wrong: %w", err)
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: fmt.Sprintf("%d services, %d workflows", services, workflows), Columns: []table.Column{{Name: "world"},
		{Name: "offered", Unit: "/s", Format: "%.0f"}, {Name: "in time", Unit: "of offered", Format: "%.4f"}, {Name: "refused", Unit: "of offered", Format: "%.4f"},
		{Name: "gave up", Unit: "of offered", Format: "%.4f"}, {Name: "wasted", Unit: "of work", Format: "%.3f"}, {Name: "events", Unit: "millions", Format: "%.1f"}}}
	var idle, over worst
	for i := range cells {
		n := &out[i].Total
		offered := float64(n.Offered)
		t.Add(cells[i].name, offered/out[i].Seconds, per(float64(n.Good), offered), per(float64(n.AllRefused()), offered),
			per(float64(n.GaveUp), offered), n.WastedShare(), float64(out[i].Events)/1e6)
		if i%2 == 0 {
			continue
		}
		ratio := per(float64(n.Good), float64(out[i-1].Total.Good))
		if i < len(cells)/2 {
			idle.low(ratio)
		} else {
			over.low(ratio)
		}
	}
	r.Floor("in time at load 0.5", " of that with timeouts alone", 0.99, 0.005, idle.get())
	r.Floor("in time at load 2", " of that with timeouts alone", 1, 0, over.get())
	speed, err := simulationSpeed(ctx, o)
	if err != nil {
		return nil, err
	}
	r.Floor("speed with 1,000 services and 100 workflows", " of real time", 1, 0, speed)
	r.Table = []*table.Table{t}
	return r, nil
}

// auditEvery is how many events lie between two recounts.
const auditEvery = 20_000

// simulationSpeed returns simulated seconds per second of processor time, that of
// the garbage collector included, of a thousand services under all layers.
func simulationSpeed(ctx context.Context, o experiment.Options) (float64, error) {
	w := mesh.Random(o.Seed, mesh.Graph{Services: 1000, Workflows: 100})
	w.Control, w.Length = whole(), 10*time.Second
	if o.Quick {
		w.Length = 4 * time.Second
	}
	c := cell{name: "speed", world: w}
	began, err := cpuTime()
	if err != nil {
		return 0, err
	}
	if _, err := runCell(ctx, &c); err != nil {
		return 0, err
	}
	ended, err := cpuTime()
	return w.Length.Seconds() / (ended - began).Seconds(), err
}

// cpuTime returns the processor time that this process has used.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
