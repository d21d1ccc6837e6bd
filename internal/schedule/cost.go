package schedule

import (
	"math"
	"time"
)

// Dominant returns the cost of a task that uses several resources at once: the
// largest of its uses, each as a part of what the resource can do, in seconds of
// that resource working for nobody else (Wisp §4.3, after dominant resource
// fairness). capacity is in resource-seconds per second, such as workers or
// permits. A use without a capacity above zero is left out, and so is one that is
// negative.
func Dominant(use []time.Duration, capacity []float64) time.Duration {
	most := 0.0
	for r, u := range use {
		if r < len(capacity) && capacity[r] > 0 {
			most = max(most, float64(u)/capacity[r])
		}
	}
	if most >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(most)
}
