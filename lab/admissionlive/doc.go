// Package admissionlive tests admission control beside its peers on real gRPC. Each
// server is alone on one core, and its capacity is known or measured.
//
//	admission/peers            every policy, three stations, 1x to 4x and a step
//	admission/peers-fast       the same with objectives of 10 and 2 ms
//	admission/coldstart-live   100 workers, load from the first instant
//	admission/slowdown-live    4x slower and fast again, beside hand-set limits
//
// Each is a world, its axes, its contenders and its bars; package bed plays it.
//
// Invariants: each repeat plays every contender before the next one begins, so that a
// slow stretch of the machine hits all; the bars are those of the project and are not
// adapted to results; the record of the machine alone voids one.
//
// What this package does not do: it holds no third-party peers. They are in a module of
// their own, lab/peers, so users of this one do not download them.
package admissionlive

import (
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns the experiments of this package, with third-party peers beside the
// others in the first two.
func Experiments(third ...bed.Peer) []experiment.Experiment {
	return []experiment.Experiment{peers(third), peersFast(third), coldstart(), slowdown()}
}

const (
	ours   = "spillgate"
	ms     = time.Millisecond
	second = time.Second
)

// clients is how many clients each world has, of one connection each.
const clients = 100

// station is a world of one service that works on to the end whatever its callers do, as
// most databases do, and of clients of one address.
func station(objective time.Duration, s world.Service, work world.Step, load world.Load) *world.World {
	s.Name, s.Deaf = "station", true
	s.Methods = []world.Method{{Name: "work", Steps: []world.Step{work}}}
	return &world.World{Objective: objective, Services: []world.Service{s},
		Clients: []world.Group{{Name: "clients", Clients: clients, SharedAddress: true, Load: load,
			Ask: []world.Ask{{Target: world.Target{Service: s.Name, Method: "work"}}}}}}
}

// waits is a station of workers that wait for an exponential time.
func waits(objective time.Duration, workers int, mean time.Duration, load world.Load) *world.World {
	return station(objective, world.Service{Workers: workers}, world.Step{Wait: exponential(mean)}, load)
}

func exponential(mean time.Duration) *world.Draw {
	return &world.Draw{Shape: world.Exponential, Mean: mean}
}

// times is a load of a multiple of the capacity.
func times(load float64) world.Load { return world.Load{Steps: []world.Rate{{Times: load}}} }

// goodput is what came in time, per second, after the warm-up.
func goodput(r *world.Report) float64 { return float64(r.Groups[0].Good) / r.Measured.Seconds() }

// between adds up what f says of the bins from one instant to another.
func between(r *world.Report, from, to time.Duration, f func(*world.Counts) int) float64 {
	total := 0
	for i := range r.Bins {
		if at := time.Duration(i) * r.Bin; at >= from && at+r.Bin <= to {
			total += f(&r.Bins[i])
		}
	}
	return float64(total)
}

func good(c *world.Counts) int { return c.Good }

// line is what f says of each bin, by the time of its end in seconds.
func line(r *world.Report, f func(*world.Counts) float64) (x, y []float64) {
	for i := range r.Bins {
		x, y = append(x, (time.Duration(i+1)*r.Bin).Seconds()), append(y, f(&r.Bins[i]))
	}
	return x, y
}
