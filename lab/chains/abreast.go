package chains

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spillgate/spillgate/lab/experiment"
)

// trial is a run on Go services of its own.
type trial struct {
	name    string
	setting Setting
	by      Discipline
	load    Load
}

// trialed is what came of a trial.
type trialed struct {
	Measured
	counts  Counts
	weights [][]Weighed
}

// abreast makes trials at the same time: servers sleep most of it, and what disturbs
// the machine disturbs all of them alike, so that they compare. No generator starts
// before all servers have. If some runs do not count, all are made again, as often
// as again says; after that r says that the machine was too busy.
func abreast(ctx context.Context, r *experiment.Result, again *int, trials []trial) ([]trialed, error) {
	for {
		out, err := abreastOnce(ctx, trials)
		if err != nil {
			return nil, err
		}
		var void []string
		for i, x := range out {
			if len(x.Invalid) > 0 {
				void = append(void, trials[i].name+": "+strings.Join(x.Invalid, "; "))
			}
		}
		if len(void) == 0 {
			return out, nil
		}
		if *again == 0 {
			r.Void = append(r.Void, void...)
			return out, nil
		}
		*again--
	}
}

// batchRetakes is how often runs abreast are made again, all in all: what makes one
// of them late makes most of them late, and they take minutes.
func batchRetakes(o experiment.Options) *int {
	n := 2
	if o.Quick {
		n = 0
	}
	return &n
}

func abreastOnce(ctx context.Context, trials []trial) ([]trialed, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	each := func(f func(i int) error) error {
		var wg sync.WaitGroup
		errs := make([]error, len(trials))
		for i := range trials {
			wg.Go(func() {
				if err := f(i); err != nil {
					errs[i] = fmt.Errorf("%s: %w", trials[i].name, err)
					cancel(errs[i]) // the others need not go on
				}
			})
		}
		wg.Wait()
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return errors.Join(errs...)
	}
	beds, out := make([]*Bed, len(trials)), make([]trialed, len(trials))
	defer func() {
		for _, b := range beds {
			if b != nil {
				b.Close()
			}
		}
	}()
	err := each(func(i int) (err error) {
		beds[i], err = StartServices(ctx, trials[i].setting, trials[i].by)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, each(func(i int) (err error) {
		if out[i].Measured, err = beds[i].Run(ctx, trials[i].load); err != nil {
			return err
		}
		if out[i].counts, err = beds[i].Counts(ctx); err != nil {
			return err
		}
		out[i].weights, err = beds[i].Weights(ctx)
		return err
	})
}
