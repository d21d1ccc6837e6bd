package placement

import (
	"maps"
	"slices"
)

// A group is divided exactly where each broker's part of the topic is a whole number of its publishers: then a burst is divided as the
// bucket is, and each part of the bucket delays it no more than the whole bucket would. One publisher more than that is a burst for which
// there is no part of the bucket. Groups of 25 are divided exactly by 9, 8 and 8 of 25 parts, not by thirds. The paper divides the topic
// evenly, and each group as nearly as that goes (section 4.3).

// unit is into how many equal parts a topic can be divided so that groups are divided exactly.
type unit struct {
	common int // the greatest common divisor of the sizes of groups; 0: there are no groups
	most   int // the size of those that send most
}

// unit returns that of the topic. Groups that send no more than may be late do not count, such as one last group that is smaller than the
// others.
func (t Topic) unit() (u unit) {
	sizes := map[uint32]int{}
	for _, p := range t.Publishers {
		if p.Group != 0 {
			sizes[p.Group]++
		}
	}
	rates, all := map[int]float64{}, 0.0 // messages a second of the groups of a size
	for _, p := range t.Publishers {
		all += p.Rate
		if p.Group != 0 {
			rates[sizes[p.Group]] += p.Rate
		}
	}
	for _, size := range slices.Sorted(maps.Keys(rates)) {
		if rates[size] > P99*all {
			u.common = divisor(size, u.common)
		}
		if rates[size] > rates[u.most] {
			u.most = size
		}
	}
	return u
}

// of returns how many parts there are for k brokers. Where the common ones are too few, they are those of the groups that send most.
func (u unit) of(k int) int {
	if u.common < k {
		return u.most
	}
	return u.common
}

// divisor returns the greatest common divisor.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// exactly returns quotas near some that divide groups exactly, nil where there are none: as many parts of equal size as unit says, at least
// one at each broker that has a quota, and no more than a broker has room for.
func (d *Distribution) exactly(brokers []Broker, quotas []float64) []float64 {
	used := count(quotas)
	unit := d.unit.of(used)
	if used == 0 || unit < used {
		return nil
	}
	part := d.rate(nil) / float64(unit)
	parts, left := make([]int, len(quotas)), unit
	for b, q := range quotas {
		if q > 0 {
			parts[b] = max(1, int(q/part*(1+1e-9)))
			left -= parts[b]
		}
	}
	for ; left > 0; left-- { // to the one that lacks most
		best := -1
		for b, q := range quotas {
			if q == 0 || float64(parts[b]+1)*part > brokers[b].Residual()*(1+1e-9) {
				continue
			}
			if best < 0 || q-float64(parts[b])*part > quotas[best]-float64(parts[best])*part {
				best = b
			}
		}
		if best < 0 {
			return nil
		}
		parts[best]++
	}
	if left < 0 {
		return nil
	}
	exact := make([]float64, len(quotas))
	for b, n := range parts {
		if exact[b] = float64(n) * part; exact[b] > brokers[b].Residual()*(1+1e-9) {
			return nil
		}
	}
	return exact
}

// more reports whether messages that come more evenly than by chance miss the objective although brokers are fast enough, and there is a
// larger number of brokers, not tried yet, that divides groups exactly. Then that is next: as the bucket delays no message more there,
// it is faster.
func (d *Distribution) more() bool {
	used, waits := d.waiting()
	if !waits || d.best != nil && d.least99 <= d.topic.Objective {
		return false
	}
	for k := used + 1; k <= len(byRoom(d.brokers)) && k <= d.unit.common; k++ {
		if slices.Contains(d.tried, k) {
			continue
		}
		if quotas, rest := Quotas(d.brokers, d.rate(nil), k); rest == 0 && d.exactly(d.brokers, quotas) != nil {
			d.least, d.room = k, nil
			d.tried = append(d.tried, k)
			return true
		}
	}
	return false
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
