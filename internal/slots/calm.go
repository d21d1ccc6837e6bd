package slots

import "math"

// calm tells, without any trial, whether requests wait in line behind those in service. Now
// and then more run than the ranks have ever reached. If all that run were served, one of the
// newer would soon be the next to end. Where none ever is, they wait.
//
// That is so only where any of those in service may be the next: two ends in a row are as
// far apart in the line as chance puts them. Short requests of one length that pass long ones end in
// order, next to each other.
//
// Requests of one length that share processors may pass for a line. The reach is then beyond
// the processors, where more of them only share what there is.
type calm struct {
	reach float64 // the highest rank
	// behind is the logarithm of the odds that all those which ended while others ran beyond the
	// reach did so by chance.
	behind float64
	// count and apart are the distances between two ends in a row while none ran beyond the
	// reach, as parts of the line; before is the place of the last one, from 0 to 1.
	count, apart, before float64
	// longer tells whether those that found more running took longer.
	longer longer
}

const sure = 9.21 // the evidence that is enough: ln 10⁴, a chance of one in ten thousand

// stirred is the mean distance from which on the ends are at random: independent ones are 1/3
// apart, constant times 0.
const stirred = 0.25

// settledRanks is how many ends there must be since the reach was last passed. A rank that comes once
// in a hundred ends is then missed in one case of seven.
const settledRanks = 4 * enoughRanks

// end takes the rank of a completion while so many ran, that took r ns and found so many running, itself
// included. It reports whether a line is certain.
func (c *calm) end(rank int, ran, found, r float64) bool {
	if float64(rank) > c.reach {
		*c = calm{reach: float64(rank)}
	}
	if n := min(ran, c.reach); rank > 0 && n > 1 {
		place := float64(rank-1) / (n - 1)
		c.count, c.apart, c.before = c.count+1, c.apart+math.Abs(place-c.before), place
	}
	if rank > 0 && ran > moves*c.reach {
		c.behind += math.Log(ran / c.reach)
	}
	if found >= c.reach {
		c.longer.add(found, r)
	}
	return c.behind >= sure && c.count >= settledRanks && c.apart >= stirred*c.count && c.longer.line()
}
