package placement

import "slices"

// evenly reports whether messages that come more evenly than by chance miss the objective by waiting for tokens, and there is a larger
// number of brokers, not tried yet, by which groups can be divided without a rest. Then that is next. Where each group has as many
// publishers at every broker, each has the same messages at the same instants, and its part of the bucket delays them no more than the
// whole bucket did the whole; one publisher more than the others have is a burst for which there is no part of the bucket.
func (d *Distribution) evenly() bool {
	used, waits := d.waiting()
	if !waits || d.best != nil && d.least99 <= d.topic.Objective {
		return false
	}
	groups, largest := d.groups()
	for k := used + 1; k <= min(len(byRoom(d.brokers)), largest); k++ {
		if slices.Contains(d.tried, k) || d.uneven(groups, k) > P99*d.rate(nil) {
			continue
		}
		if _, rest := Quotas(d.brokers, d.rate(nil), k); rest == 0 {
			d.least, d.room = k, nil
			d.tried = append(d.tried, k)
			return true
		}
	}
	return false
}

// groups returns how many publishers each group has, and the largest.
func (d *Distribution) groups() (sizes map[uint32]int, largest int) {
	sizes = map[uint32]int{}
	for _, p := range d.topic.Publishers {
		if p.Group != 0 {
			sizes[p.Group]++
			largest = max(largest, sizes[p.Group])
		}
	}
	return sizes, largest
}

// uneven returns the messages a second of groups that cannot be divided over k brokers without a rest. Where these are fewer than may be
// late, as those of one last group that is smaller than the others, they do not count.
func (d *Distribution) uneven(sizes map[uint32]int, k int) (sum float64) {
	for _, p := range d.topic.Publishers {
		if p.Group != 0 && sizes[p.Group]%k != 0 {
			sum += p.Rate
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
