package worlds

import (
	"context"
	"errors"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
)

// lookEvery is after how many events it is looked whether the context ended.
const lookEvery = 100_000

// Simulate plays a world in virtual time with a policy of Policies in front of every
// gated service. It returns every mistake in the world, an unknown policy, or the error
// of a context that ended first. It may be called concurrently.
func Simulate(ctx context.Context, w *world.World, policy string, seed uint64) (*world.Report, error) {
	if mistakes := w.Check(); len(mistakes) > 0 {
		var errs []error
		for _, m := range mistakes {
			errs = append(errs, m)
		}
		return nil, errors.Join(errs...)
	}
	ctl, err := control(w.WithDefaults(), policy)
	if err != nil {
		return nil, err
	}
	cfg, err := mesh.Describe(w, ctl, seed)
	if err != nil {
		return nil, err
	}
	m, err := mesh.New(cfg)
	if err != nil {
		return nil, err
	}
	for n := 0; m.Step(); n++ {
		if n%lookEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if _, err := m.Report(); err != nil {
		return nil, err
	}
	return m.Measured(), nil
}
