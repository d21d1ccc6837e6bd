package stage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/wire"
)

// Tenant is one of several who share the services. Its requests carry its name as
// their workflow, and go over connections of its own.
type Tenant struct {
	Name string `json:"name"`
	// Steps are its load, in requests a second. A step of 0 is one in which it is
	// away.
	Steps openloop.Profile `json:"steps"`
}

func (l Load) validateTenants() error {
	var errs []error
	seen := map[string]bool{}
	for _, t := range l.Tenants {
		if t.Name == "" || !wire.ValidWorkflow(t.Name) || seen[t.Name] {
			errs = append(errs, fmt.Errorf("demo: a tenant is called %.80q, expected a name of its own that a workflow may have", t.Name))
		}
		seen[t.Name] = true
		if err := t.Steps.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("demo: tenant %.80s: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// seedStep is between the seeds of two tenants, who must not send at the same
// instants.
const seedStep = 1_000_003

// run is one of several loads that are played at once.
type run struct {
	load   Load
	send   openloop.Send
	unsent *tally
}

// tenants prepares a run of all tenants.
func (l Load) tenants(ctx context.Context) ([]run, func(), error) {
	var runs []run
	var all []*grpc.ClientConn
	closeAll := func() { hangUp(all) }
	for i, t := range l.Tenants {
		own := l
		own.tenant, own.Steps, own.Tenants = t.Name, t.Steps, nil
		own.Seed += uint64(i) * seedStep
		conns, err := own.connect(ctx)
		all = append(all, conns...)
		if err != nil {
			return nil, closeAll, err
		}
		local := newTally()
		runs = append(runs, run{own, own.sender(conns, local), local})
	}
	return runs, closeAll, nil
}

// together plays loads whose connections are all there. The first that fails ends
// the others.
func together(ctx context.Context, runs []run, out *writer) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, r := range runs {
		all.Go(func() {
			if errs[i] = r.load.play(ctx, r.send, r.unsent, out); errs[i] != nil {
				cut()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
