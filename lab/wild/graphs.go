package wild

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/lab/experiment"
)

// ofGraph are the semaphores of which the best is chosen for a call graph in hindsight: at each service
// some multiples of what it works on at a time, and queues of the same. A service on a shared machine
// works on as many as there are processors.
func ofGraph(*drawn) []string {
	return []string{"semaphore:1x", "semaphore:1x:1x", "semaphore:1x:4x", "semaphore:1x:16x", "semaphore:2x", "semaphore:2x:4x",
		"semaphore:4x", "semaphore:4x:8x", "semaphore:16x"}
}

// graphsExperiment is wild/graphs.
func graphsExperiment() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wild/graphs",
		Title: "call graphs whose numbers nobody chose, with only the objective set",
		About: fmt.Sprintf(`Each world is drawn from a seed: %d to %d services that call each other, one after the other or all at once, with workers
of their own or on one machine; their service times; up to %d workflows that enter anywhere, each with its clients, deadlines,
retries and load over time; what goes wrong, and where. The objective is %v to %v. Beside it: adaptive limits that nobody
tunes, DAGOR with its thresholds for the service times, and a semaphore with a bounded queue at each service that is told what
the service works on at a time, the best of nine for each world in hindsight. The worst worlds are listed with their seeds.`,
			leastServices, mostServices, mostWorkflows, leastObjective, mostObjective.Round(time.Second)),
		Run: (&kind{anyGraph, untuned(append(adaptive, "dagor")...), ofGraph}).play,
	}
}
