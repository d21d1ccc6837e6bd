package experiment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spillgate/spillgate/internal/sim/model"
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
	return Each(ctx, o, cells, func(c *Cell) (string, float64) { return c.Name, c.Cost }, runCell)
}

// Each runs every cell on all processors and returns what it returned, in the
// order of the cells, or the first error. about names a cell, for progress and
// errors, and says what it costs: the dearest start first. Where several seeds are
// judged, their cells share the processors.
func Each[C, R any](ctx context.Context, o Options, cells []C, about func(*C) (name string, cost float64), run func(context.Context, *C) (R, error)) ([]R, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	crew := o.crew
	if crew == nil {
		crew = newCrew(o.Progress)
	}
	crew.expect(len(cells))
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		_, x := about(&cells[a])
		_, y := about(&cells[b])
		return cmp.Compare(y, x)
	})
	results := make([]R, len(cells))
	var wait sync.WaitGroup
	for _, i := range order {
		name, cost := about(&cells[i])
		wait.Go(func() {
			if !crew.take(ctx, cost) {
				return
			}
			defer crew.give(name)
			result, err := run(ctx, &cells[i])
			if err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
			results[i] = result
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
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
