package stage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/wire"
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

// playTenants makes the run of all tenants. No generator begins before all are
// connected; the first that fails ends the others.
func (l Load) playTenants(ctx context.Context, out *writer) error {
	loads := make([]Load, len(l.Tenants))
	conns := make([][]*grpc.ClientConn, len(l.Tenants))
	for i, t := range l.Tenants {
		own := l
		own.tenant, own.Steps, own.Tenants = t.Name, t.Steps, nil
		own.Seed += uint64(i) * seedStep
		var err error
		conns[i], err = own.connect(ctx)
		defer hangUp(conns[i])
		if err != nil {
			return err
		}
		loads[i] = own
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	errs := make([]error, len(loads))
	var runs sync.WaitGroup
	for i, own := range loads {
		runs.Go(func() {
			local := newTally()
			if errs[i] = own.play(ctx, own.sender(conns[i], local), local, out); errs[i] != nil {
				cut()
			}
		})
	}
	runs.Wait()
	return errors.Join(errs...)
}
