package slots

import "math"

// calm recognizes, without a trial, that requests wait in line behind those in service. Now and then more requests
// run than the ranks have ever reached. If all of them were served, one of the newer would soon be the next to end;
// where none ever is, they wait.
//
// This holds only where any request in service may end next, so that two ends in a row are as far apart in the order
// of arrival as chance puts them. Short requests of one length that pass long ones end in order, next to each other.
// Requests of one length that share processors may pass for a line; the reach then lies beyond the processors, where
// more requests only share what there is.
type calm struct {
	reach  float64 // the highest rank
	behind float64 // −ln of the probability that every end while others ran beyond the reach was chance
	// count and apart are the number and the sum of the distances between two ends in a row, in parts of what was
	// served; before is the place of the last end, from 0 to 1.
	count, apart, before float64
	longer               longer // whether requests that found more running took longer
}

const (
	// sure is the evidence that is enough, ln 10⁴: a chance of one in ten thousand.
	sure = 9.21
	// stirred is the mean distance from which on ends are at random. Independent ends are 1/3 apart, ends of constant
	// times 0.
	stirred = 0.25
	// settledRanks is how many ends there must be since the reach last grew. A rank that comes once in a hundred ends
	// is then missed in one case of seven.
	settledRanks = 4 * enoughRanks
)

// end takes the rank of a request that ended while ran held slots, took r ns, and had found so many of them, itself
// included. It reports whether a line is certain.
func (c *calm) end(rank int, ran, found, r float64) bool {
	if float64(rank) > c.reach {
		*c = calm{reach: float64(rank)}
	}
	if rank > 0 && ran > moves*c.reach {
		c.behind += math.Log(ran / c.reach)
	}
	if c.behind == 0 {
		return false // mostly nobody runs beyond the reach
	}
	if n := min(ran, c.reach); rank > 0 && n > 1 {
		place := float64(rank-1) / (n - 1)
		c.count, c.apart, c.before = c.count+1, c.apart+math.Abs(place-c.before), place
	}
	if found >= c.reach {
		c.longer.add(found, r)
	}
	return c.behind >= sure && c.count >= settledRanks && c.apart >= stirred*c.count && c.longer.line()
}
