package experiment

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/spillgate/spillgate/sim/model"
)

// Cell is one simulated world of an experiment.
type Cell struct {
	// Name is shown as progress and in errors.
	Name string
	// World is the whole of its configuration.
	World model.Config
	// Cost orders the cells: dearer ones start first, so that none is left
	// running alone at the end. Any unit; default 0.
	Cost float64
}

// Run runs cells on all processors and returns their reports in the order of
// the cells. Worlds share nothing, so the order in which they run does not
// matter.
func Run(ctx context.Context, o Options, cells []Cell) ([]*model.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	order := byCost(cells)
	reports := make([]*model.Report, len(cells))
	var (
		mu         sync.Mutex
		next, done int
		wait       sync.WaitGroup
	)
	for range min(runtime.GOMAXPROCS(0), len(cells)) {
		wait.Go(func() {
			for {
				mu.Lock()
				if next == len(order) || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				i := order[next]
				next++
				mu.Unlock()
				report, err := runCell(ctx, &cells[i])
				if err != nil {
					cancel(fmt.Errorf("%s: %w", cells[i].Name, err))
					return
				}
				mu.Lock()
				reports[i] = report
				done++
				if o.Progress != nil {
					o.Progress(done, len(cells), cells[i].Name)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return reports, nil
}

func runCell(ctx context.Context, c *Cell) (*model.Report, error) {
	w, err := model.New(c.World)
	if err != nil {
		return nil, err
	}
	for n := 0; w.Step(); n++ {
		if n%100_000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return w.Report()
}

// byCost returns the indexes of cells, dearest first, equal ones in order.
func byCost(cells []Cell) []int {
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	for i := 1; i < len(order); i++ {
		for j := i; j > 0 && cells[order[j]].Cost > cells[order[j-1]].Cost; j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	return order
}
