package placement

import (
	"math"
	"slices"
)

// whole reports whether every publisher has a place, and every broker with some was measured in this round.
func (d *Distribution) whole() bool {
	for b := range d.parts {
		if p := &d.parts[b]; p.rate > 0 && !p.seen {
			return false
		}
	}
	return d.Unplaced() == 0
}

// used returns how many brokers have publishers in this round.
func (d *Distribution) used() (n int) {
	for b := range d.parts {
		if d.parts[b].rate > 0 {
			n++
		}
	}
	return n
}

// missed reports whether a broker missed the objective in this round.
func (d *Distribution) missed() bool {
	for b := range d.parts {
		if p := &d.parts[b]; p.fit != nil && p.seen && d.decisive(p) > d.topic.Objective {
			return true
		}
	}
	return false
}

// correct corrects the model by a miss, and reports whether there is a number of brokers left to try.
func (d *Distribution) correct() bool {
	d.learn()
	return d.try(d.used() + 1)
}

// fewer corrects the model where the objective was met, and reports whether it now says that fewer brokers do.
func (d *Distribution) fewer() bool {
	if !d.whole() {
		return false
	}
	before := *d.model
	used, worst := d.used(), d.learn()
	if k, _ := d.enough(1); k < used && d.try(1) {
		return true
	}
	if worst < 0 {
		return false
	}
	of := d.share(worst, d.parts[worst].rate)
	return d.clearly(used-1, before.matching(of, d.parts[worst].last.Processing)) || of.Steady < 1 && d.perhaps(used-1)
}

// perhaps reports whether a number of brokers has not been tried, and the model does not say that they miss the objective clearly. Then that
// is next: messages that come more evenly than by chance meet bursts of each other always or never, which the model does not know, and one
// measurement says for good.
func (d *Distribution) perhaps(k int) bool {
	if k < 1 || slices.Contains(d.tried, k) {
		return false
	}
	if _, rest, p99 := d.predicted(k, nil); rest > 0 || p99 > (1+Tolerance)*d.topic.Objective {
		return false
	}
	d.least, d.room = k, nil
	d.tried = append(d.tried, k)
	return true
}

// clearly reports whether a number of brokers has not been tried, and a model that agrees with what was just measured predicts that
// they meet the objective with room to spare. Then that is next: the model learns a part of each measurement, and groups that
// fire less together than their owner says would take three rounds to show that fewer brokers do.
func (d *Distribution) clearly(k int, m Model) bool {
	if k < 1 || slices.Contains(d.tried, k) {
		return false
	}
	learned := *d.model
	*d.model = m
	_, rest, p99 := d.predicted(k, nil)
	*d.model = learned
	if rest > 0 || p99 > (1-below)*d.topic.Objective {
		return false
	}
	d.least, d.room = k, nil
	d.tried = append(d.tried, k)
	return true
}

// undivided reports whether messages miss the objective by waiting for tokens alone, and one broker less, which the
// model says is too slow, has not been tried yet. Then it is next. It is only where messages come more evenly than by
// chance, since what was seen then comes again; otherwise waits come in rare clusters, which say nothing of the division.
func (d *Distribution) undivided() bool {
	used, waits := d.waiting()
	if !waits || used < 2 || slices.Contains(d.tried, used-1) {
		return false
	}
	if _, rest := Quotas(d.brokers, d.rate(nil), used-1); rest > 0 {
		return false
	}
	d.least, d.room = used-1, nil
	d.tried = append(d.tried, d.least)
	return true
}

// learn corrects the model by the broker that processes slowest, and returns which that is, -1 for none.
func (d *Distribution) learn() (worst int) {
	worst = -1
	for b := range d.parts {
		if p := &d.parts[b]; p.rate > 0 && (worst < 0 || p.last.Processing > d.parts[worst].last.Processing) {
			worst = b
		}
	}
	if worst >= 0 {
		p := &d.parts[worst]
		*d.model = d.model.Corrected(d.share(worst, p.rate), p.last.Processing)
	}
	return worst
}

// try sets the number of brokers to what the model says, from some number on, if that is a new one, and fewer than have been
// fast enough.
func (d *Distribution) try(from int) bool {
	k, room := d.enough(from)
	if k > len(byRoom(d.brokers)) || slices.Contains(d.tried, k) || d.met > 0 && k >= d.met {
		return false
	}
	d.least, d.room = k, room
	d.tried = append(d.tried, k)
	return true
}

// enough returns the fewest brokers, from some number on, with which the model predicts that
// the objective is met, and the room that they then have for the topic, nil for all of it; if no
// number is enough, the one with which it is missed by least.
//
// Equal shares may fill a broker that others use too, up to its last message a second, while
// those beside it have time to spare. So where the objective is missed with equal shares,
// it is tried with shares that keep each broker's own delay below it (narrow).
func (d *Distribution) enough(from int) (k int, room []float64) {
	best, least := from, math.Inf(1)
	var narrow []float64
	for k := from; k <= len(byRoom(d.brokers)); k++ {
		_, rest, worst := d.predicted(k, nil)
		if rest == 0 && worst <= d.topic.Objective {
			return k, nil
		}
		if worst < least {
			best, least, room = k, worst, nil
		}
		if narrow == nil {
			narrow = d.narrow()
		}
		quotas, rest, worst := d.predicted(k, narrow)
		switch {
		case rest > 0 || count(quotas) > k: // that is another number of brokers
		case worst <= d.topic.Objective:
			return k, narrow
		case worst < least:
			best, least, room = k, worst, narrow
		}
	}
	return best, room
}

// count returns how many brokers get something.
func count(quotas []float64) (n int) {
	for _, q := range quotas {
		if q > 0 {
			n++
		}
	}
	return n
}

// below is how far below the objective a broker's own delay is kept where its room is limited
// by that: as far as the published search stops below it (section 4.3).
const below = 0.2

// narrow returns the rate of the topic at which the model predicts that each broker's own
// p99 is below the objective by that part, in messages a second.
func (d *Distribution) narrow() []float64 {
	room, all, group := make([]float64, len(d.brokers)), d.rate(nil), d.group()
	for b, broker := range d.brokers {
		if b > 0 && broker == d.brokers[b-1] { // brokers are often alike
			room[b] = room[b-1]
			continue
		}
		low, high := 0.0, min(broker.Residual(), all)
		for range 10 { // to a thousandth
			middle := (low + high) / 2
			s := Share{Arriving: middle, Together: max(1, middle/all*group) * d.topic.Batch, Beside: broker.busy()}
			if d.model.busyP99(s) > (1-below)*d.topic.Objective {
				high = middle
			} else {
				low = middle
			}
		}
		room[b] = low
	}
	return room
}

// offers returns the brokers with the room that they may give the topic, nil for all that they have.
func (d *Distribution) offers(room []float64) []Broker {
	all := slices.Clone(d.brokers)
	for b, most := range room {
		all[b].Capacity = min(all[b].Capacity, all[b].Load+most)
	}
	return all
}

// Predicted returns what k brokers would get, in messages a second in the order of brokers, or more of them where the room of k is
// not enough; what finds no room; and the p99 in seconds that the model predicts at the worst of them,
// infinite without a model.
func (d *Distribution) Predicted(k int) (quotas []float64, rest, p99 float64) {
	return d.predicted(k, d.room)
}

// predicted is Predicted for some room. Where messages come more evenly than by chance, groups are divided exactly if they can be, and the p99 is that of
// equal parts all the same: it is made by the brokers that have a publisher more of a group.
func (d *Distribution) predicted(k int, room []float64) (quotas []float64, rest, p99 float64) {
	offers := d.offers(room)
	quotas, rest = Quotas(offers, d.rate(nil), k)
	if d.model == nil {
		return quotas, rest, math.Inf(1)
	}
	var last Share
	for b, quota := range quotas {
		if s := d.share(b, quota); s != last { // brokers are often alike
			p99, last = max(p99, d.model.P99(s)), s
		}
	}
	if rest == 0 && d.share(0, d.rate(nil)).Steady < 1 {
		if parts := d.exactly(offers, quotas); parts != nil {
			return parts, 0, p99
		}
	}
	return quotas, rest, p99
}

// share describes the part of the topic with a rate at a broker.
func (d *Distribution) share(broker int, rate float64) Share {
	all, group := d.rate(nil), d.group()
	part := rate / all
	s := Share{Bucket: d.topic.Split(part), Arriving: rate, Together: max(1, part*group) * d.topic.Batch, Steady: 1, Beside: d.brokers[broker].busy()}
	if load := all / d.topic.Rate; load < 1 {
		// The owner's burst says how unevenly messages come: as few as it lets through at once.
		s.Steady = min(1, d.topic.Burst/(SmallestBurst(load, P99)*max(1, group)*d.topic.Batch))
	}
	return s
}

// group returns how many publishers fire together with one, in the mean over publishers: the
// group that a message is likely to be of.
func (d *Distribution) group() float64 {
	var groups []uint32
	for _, p := range d.topic.Publishers {
		if p.Group != 0 {
			groups = append(groups, p.Group)
		}
	}
	slices.Sort(groups)
	sum := float64(len(d.topic.Publishers) - len(groups)) // alone
	for from := 0; from < len(groups); {
		to := from
		for to < len(groups) && groups[to] == groups[from] {
			to++
		}
		sum += float64(to-from) * float64(to-from)
		from = to
	}
	return sum / float64(len(d.topic.Publishers))
}
