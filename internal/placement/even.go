package placement

import (
	"maps"
	"slices"
)

// evenly reports whether messages that come more evenly than by chance miss the objective by waiting for tokens, and there is a larger
// number of brokers, not tried yet, by which groups can be divided without a rest. Then that is next. Where each group has as many
// publishers at every broker, each has the same messages at the same instants, and its part of the bucket delays them no more than the
// whole bucket did the whole; one publisher more than the others have is a burst for which there is no part of the bucket.
func (d *Distribution) evenly() bool {
	used, waits := d.waiting()
	if !waits || d.best != nil && d.least99 <= d.topic.Objective {
		return false
	}
	groups, all := d.groups(), d.rate(nil)
	for k := used + 1; k <= len(byRoom(d.brokers)); k++ {
		if len(groups) == 0 || k > groups[len(groups)-1].size {
			return false
		}
		if slices.Contains(d.tried, k) || uneven(groups, k) > P99*all {
			continue
		}
		if _, rest := Quotas(d.brokers, all, k); rest == 0 {
			d.least, d.room = k, nil
			d.tried = append(d.tried, k)
			return true
		}
	}
	return false
}

// sized is the groups of one size.
type sized struct {
	size int     // publishers of each
	rate float64 // messages a second of all of them
}

// groups returns the groups by size, the largest last.
func (d *Distribution) groups() (all []sized) {
	sizes := map[uint32]int{}
	for _, p := range d.topic.Publishers {
		if p.Group != 0 {
			sizes[p.Group]++
		}
	}
	at := map[int]int{}
	for _, size := range slices.Compact(slices.Sorted(maps.Values(sizes))) {
		at[size] = len(all)
		all = append(all, sized{size: size})
	}
	for _, p := range d.topic.Publishers { // in order, so that the sums are the same each time
		if p.Group != 0 {
			all[at[sizes[p.Group]]].rate += p.Rate
		}
	}
	return all
}

// uneven returns the messages a second of groups that cannot be divided over k brokers without a rest. Where these are fewer than may be
// late, as those of one last group that is smaller than the others, they do not count.
func uneven(groups []sized, k int) (sum float64) {
	for _, g := range groups {
		if g.size%k != 0 {
			sum += g.rate
		}
	}
	return sum
}

// waiting returns how many brokers are in use, and whether messages miss the objective at one of them although they come more evenly
// than by chance: then what was seen comes again, and waits for tokens are no rare cluster.
func (d *Distribution) waiting() (used int, waits bool) {
	for b := range d.parts {
		p := &d.parts[b]
		if p.rate == 0 {
			continue
		}
		if used++; !p.seen || d.share(b, p.rate).Steady >= 1 {
			return used, false
		}
		waits = waits || p.last.P99 > d.topic.Objective
	}
	return used, waits
}
