package node

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
)

// Config describes a Node. Only Objective is required.
type Config struct {
	admission.Config
	// Service names the service to the processes that call it, by a name that
	// wire.ValidWorkflow accepts. Replicas of a service have the same name. Callers
	// need it where Rates are announced. Default none: callers use the address.
	Service string
	// Number tells this process from all others. Callers hear it where Rates are
	// announced. Default 0: the process is not told apart, so no rate is announced.
	Number uint64
	// Shares is what workflows get of their class's part of the slots, by name,
	// from schedule.MinWeight to schedule.MaxWeight. They count with Schedule.Fair.
	// Default 1 each. SetShare changes them.
	Shares map[string]float64
}

// check returns every mistake in what a Node itself reads of its configuration.
func (c *Config) check() error {
	var errs []error
	if c.Service != "" && !wire.ValidWorkflow(c.Service) {
		errs = append(errs, fmt.Errorf("node: Service is %.80q, expected at most %d visible ASCII characters without , ; = %% \" \\", c.Service, wire.MaxWorkflow))
	}
	if len(c.Shares) > 0 && !c.Schedule.Fair {
		errs = append(errs, fmt.Errorf("node: there are Shares of %d workflows, expected none without Schedule.Fair, which tells workflows apart", len(c.Shares)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Shares)) {
		if s := c.Shares[name]; !(s >= schedule.MinWeight && s <= schedule.MaxWeight) {
			errs = append(errs, fmt.Errorf("node: Shares[%q] is %v, expected %v to %v", name, s, schedule.MinWeight, schedule.MaxWeight))
		}
	}
	return errors.Join(errs...)
}

// New returns a node around an admission.Gate, or every mistake in cfg.
func New(cfg Config) (*Node, error) {
	n := &Node{number: cfg.Number, service: cfg.Service, fair: cfg.Schedule.Fair, rated: cfg.Rates != nil, periodEnds: math.MinInt64} // time may begin anywhere
	if order := cfg.Schedule.Order; n.rated || order != schedule.FIFO {
		n.totals, _ = progress.NewTotals(progress.TotalsConfig{}) // the zero value has no mistakes
		n.parts, _ = progress.NewTotals(progress.TotalsConfig{})
	}
	if n.rated {
		own := *cfg.Rates
		own.Service, own.Process = n.service, processName(n.number)
		cfg.Rates = &own
		n.callers, n.pollers.places = map[uint64]*caller{}, map[subject]int{}
	}
	door, err := baseline.NewGate(cfg.Config)
	if err := errors.Join(cfg.check(), err); err != nil {
		return nil, err
	}
	n.door, n.gate = door, door.Gate
	if n.fair {
		queue, _ := schedule.New(n.gate.Config().Schedule) // the gate's own was made from it
		n.flows = NewFlows(queue.Config().Workflows)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Shares)) {
		if !n.setShare(0, name, cfg.Shares[name]) {
			return nil, fmt.Errorf("node: there are Shares of %d workflows, expected fewer than Schedule.Workflows, which is %d", len(cfg.Shares), n.flows.max)
		}
	}
	return n, nil
}

// Around returns a node around another policy, for comparisons. It knows no
// workflows and no rates: the policy sees what is on the ticket.
func Around(door baseline.Door) *Node { return &Node{door: door} }
