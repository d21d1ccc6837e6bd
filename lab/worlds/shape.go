package worlds

import (
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// Shape is a family of service times of which experiments use several members.
type Shape uint8

const (
	// Exponential has the coefficient of variation 1.
	Exponential Shape = iota
	// Constant is always the mean.
	Constant
	// Bimodal is 4 times the mean for one request in five, else a quarter of it
	// (Breakwater §5).
	Bimodal
	// Rare is half the mean for 99 requests in 100, and 50 times it for the other.
	Rare
	// Pareto has the index 1.5: a third of the mean at least, no variance.
	Pareto
)

// String names s as results do.
func (s Shape) String() string {
	return [...]string{"exponential", "constant", "bimodal", "rare", "pareto"}[s]
}

// Draw returns the member of the family with a mean.
func (s Shape) Draw(mean time.Duration) *world.Draw {
	two := func(often, seldom time.Duration, share float64) *world.Draw {
		return &world.Draw{Shape: world.Weighted, Points: []world.Point{{Value: often, Weight: 1 - share}, {Value: seldom, Weight: share}}}
	}
	switch s {
	case Constant:
		return &world.Draw{Mean: mean}
	case Bimodal:
		return two(mean/4, 4*mean, 0.2)
	case Rare:
		return two(mean/2, mean/2+50*mean, 0.01)
	case Pareto:
		return &world.Draw{Shape: world.Pareto, Param: 1.5, Mean: mean}
	}
	return &world.Draw{Shape: world.Exponential, Mean: mean}
}

// Single is a service of workers whose requests take a mean time, which one group of
// clients asks, each with a wallet where there are wallets.
func Single(name string, objective time.Duration, workers int, service *world.Draw, clients int, load world.Load) *world.World {
	return &world.World{
		Name: name, Objective: objective,
		Services: []world.Service{{Name: "service", Workers: workers, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: service}}}}}},
		Clients: []world.Group{{Name: "clients", Clients: clients, Load: load,
			Ask: []world.Ask{{Target: world.Target{Service: "service", Method: "do"}}}}},
	}
}

// Times is a load of so many times the capacity.
func Times(load float64) world.Load { return world.Load{Steps: []world.Rate{{Times: load}}} }
