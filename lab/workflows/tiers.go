package workflows

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// The chains of the compose experiments: tiers of two processes each, of which the
// last has the least capacity. Each stage takes 2 ms.
const (
	stageTime   = 2 * ms
	leafWorkers = 4
	restWorkers = 16
	perTier     = 2
	budget      = 100 * ms
)

// leafCapacity is what the leaf can do, in requests/s.
func leafCapacity() float64 { return perTier * leafWorkers / stageTime.Seconds() }

// chain is so many tiers under an open load that changes in steps.
func chain(seed uint64, control mesh.Control, tiers int, steps []mesh.Change, length time.Duration) mesh.Config {
	work := mesh.Work(mesh.Exp(stageTime))
	cfg := mesh.Config{Seed: seed, Control: control, Length: length, Bin: 100 * ms}
	var root mesh.Stage
	for i := tiers - 1; i >= 0; i-- {
		s := mesh.Service{Name: fmt.Sprintf("%c", 'a'+i), Processes: perTier, Resources: []mesh.Resource{{Name: "workers", Capacity: restWorkers}}}
		stage := mesh.Stage{Service: s.Name, Steps: []mesh.Step{work}}
		if i == tiers-1 {
			s.Resources[0].Capacity = leafWorkers
		} else {
			stage.Steps = append(stage.Steps, mesh.Each(mesh.Call{Stage: root}))
		}
		root = stage
		cfg.Services = append([]mesh.Service{s}, cfg.Services...)
	}
	cfg.Workflows = []mesh.Workflow{{Name: "w", Deadline: mesh.Deadline{After: budget}, Root: root}}
	cfg.Groups = []mesh.Group{{Clients: 8, Load: mesh.Load{Steps: steps}}}
	return cfg
}

// whole is everything together: credits, rates and slack.
func whole() mesh.Control { return mesh.Whole(schedule.LSTF) }

// atEntry returns the share of all refusals between two looks that clients and the
// first service made.
func atEntry(from, to *mesh.Report) float64 {
	entry, all := 0.0, 0.0
	for i := range to.ClientSheds {
		entry += float64(to.ClientSheds[i] - from.ClientSheds[i])
	}
	for i := range to.Services {
		n := sheds(&to.Services[i]) - sheds(&from.Services[i])
		if all += n; i == 0 {
			entry += n
		}
	}
	return per(entry, all+clientSheds(from, to))
}

func clientSheds(from, to *mesh.Report) float64 {
	n := 0.0
	for i := range to.ClientSheds {
		n += float64(to.ClientSheds[i] - from.ClientSheds[i])
	}
	return n
}

// recoveryWindow is over what recovery looks: what came at its end is answered after
// it, a few of a hundred.
const recoveryWindow = 3

// recovery returns the time from an instant to the end of the last window after it
// in which less than 95 % as many were in time as came.
func recovery(r *mesh.Report, from, to time.Duration) time.Duration {
	last, window := from, recoveryWindow*r.BinLength
	for at := from; at+window <= to; at += r.BinLength {
		n := r.Between(at, at+window, 0)
		if float64(n.Good) < 0.95*float64(n.Offered) {
			last = at + window
		}
	}
	return last - from
}
