package bed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/world"
)

// Take is what Play plays.
type Take struct {
	World  *world.World
	Policy string
	Seed   uint64
}

// abreast plays takes at the same time, each with processes of its own, and returns what
// came of each: where processes sleep most of the time, what disturbs the machine
// disturbs all alike, so that they compare. No clients start before all services have.
// The first error ends all.
func abreast(ctx context.Context, takes []Take, peers ...Peer) ([]*Played, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, errs := make([]*Played, len(takes)), make([]error, len(takes))
	var all, open sync.WaitGroup
	open.Add(len(takes))
	for i, t := range takes {
		all.Go(func() {
			opened := sync.OnceFunc(open.Done)
			defer opened() // the others do not wait for one that failed
			out[i], errs[i] = play(ctx, t, peers, func() { opened(); open.Wait() })
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s, seed %d: %w", t.Policy, t.Seed, errs[i])
				cancel(errs[i])
			}
		})
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return out, errors.Join(errs...)
}

// quiet is how long a run waits for a machine that does nothing else.
const quiet = 2 * time.Second

// Counted plays takes abreast once the machine is quiet, or has not been for a while, again if disturbed says of one why it does not count, as
// often as again says, which it takes down. It returns what came of the last time, and why
// those that do not count do not, nothing if all do.
func Counted(ctx context.Context, again *int, disturbed func(Take, *Played) string, takes []Take, peers ...Peer) (out []*Played, void []string, err error) {
	for {
		machine.AwaitQuiet(ctx, quiet)
		if out, err = abreast(ctx, takes, peers...); err != nil {
			return nil, nil, err
		}
		void = nil
		for i, p := range out {
			if why := disturbed(takes[i], p); why != "" {
				void = append(void, fmt.Sprintf("%s, %s, seed %d: %s", strings.TrimSpace(takes[i].World.Name), takes[i].Policy, takes[i].Seed, why))
			}
		}
		if len(void) == 0 || *again == 0 {
			return out, void, nil
		}
		*again--
	}
}
