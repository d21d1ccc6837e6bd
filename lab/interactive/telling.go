package interactive

import (
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// Telling is a world of this package for those who ask what a change of the class shares
// costs: four servers at 80 %, half of it by chains, who are told nothing.
func Telling(seed uint64) mesh.Config {
	s := oracle(40, 40)
	return s.world(seed, ours(), 10*time.Second, 50*time.Second)
}

// Worth is what a change is judged by in Telling: how many requests are answered in a second
// of waiting, chains and singles counting alike.
func Worth(r *mesh.Report) float64 {
	var out outcome
	out.add(r)
	return 1e3/out.chains.mean() + 1e3/out.singles.mean()
}
