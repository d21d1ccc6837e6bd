package experiment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
)

// Cell is one simulated world of an experiment.
type Cell struct {
	// Name is shown as progress and in errors.
	Name string
	// World is what happens, under Control, by the chance of Seed.
	World   *world.World
	Control mesh.Control
	Seed    uint64
	// Bin is the length of the bins of the report. Default 0: no bins.
	Bin time.Duration
	// Cost orders the cells: dearer ones start first, so that none is left
	// running alone at the end. Any unit; default 0.
	Cost float64
}

// Played is what one world came to. Bins and Between count what happened when clients
// knew; Seen counts by the intended send time.
type Played struct {
	*mesh.Report
	Seen *world.Report
}

// Between sums the bins from one time to another, both from the start.
func (p *Played) Between(from, to time.Duration) mesh.Count {
	all := make([]int, len(p.Workflows))
	for i := range all {
		all[i] = i
	}
	return p.Report.Between(from, to, all...)
}

// Messages is the share of the first service's workers' time spent on messages of no
// request that it worked on.
func (p *Played) Messages() float64 { return p.Services[0].Messages }

// Fairness is Jain's index of the good answers per client that offered anything: 1 if
// all got the same, 1/n if one got all.
func (p *Played) Fairness() float64 {
	var n, sum, squares float64
	for i := range p.Seen.Groups {
		for _, c := range p.Seen.Groups[i].Clients {
			if c.Offered > 0 {
				n++
				sum += float64(c.Good)
				squares += float64(c.Good) * float64(c.Good)
			}
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}

// Run runs cells on all processors and returns their reports in the order of
// the cells. Worlds share nothing, so the order in which they run does not
// matter.
func Run(ctx context.Context, o Options, cells []Cell) ([]*Played, error) {
	return Each(ctx, o, cells, func(c *Cell) (string, float64) { return c.Name, c.Cost }, Play)
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

// Play runs one cell. What Run returns of thousands of cells would fill the memory: an
// experiment of many keeps, with Each, what it judges.
func Play(ctx context.Context, c *Cell) (*Played, error) {
	cfg, err := mesh.Describe(c.World, c.Control, c.Seed)
	if err != nil {
		return nil, err
	}
	cfg.Bin = c.Bin
	w, err := mesh.New(cfg)
	if err != nil {
		return nil, err
	}
	for n := 0; w.Step(); n++ {
		if n%100_000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	r, err := w.Report()
	if err != nil {
		return nil, err
	}
	return &Played{r, w.Measured()}, nil
}
