package placement

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Topic is a topic to place.
type Topic struct {
	// Bucket is that of the whole topic.
	Bucket
	// Objective is the p99 from the arrival of a message to its delivery, in seconds.
	Objective float64
	// Publishers are at most MaxPublishers.
	Publishers []Publisher
	// Batch is how many messages a publisher sends in one go; 0 stands for 1.
	Batch float64
}

// Limits of a topic and of a search.
const (
	MaxPublishers = 1 << 20
	// maxRestarts is how often a model may be wrong before measurements alone decide.
	maxRestarts = 3
)

// Check reports every mistake of a topic.
func (t Topic) Check() error {
	var errs []error
	wrong := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("placement: %s is %v, expected %s", name, value, want))
		}
	}
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	wrong(positive(t.Rate), "Rate", t.Rate, "messages a second above 0")
	wrong(t.Burst >= 1 && !math.IsInf(t.Burst, 1), "Burst", t.Burst, "1 message or more")
	wrong(positive(t.Objective), "Objective", t.Objective, "seconds above 0")
	wrong(t.Batch == 0 || t.Batch >= 1 && !math.IsInf(t.Batch, 1), "Batch", t.Batch, "1 message or more, or 0 for 1")
	wrong(len(t.Publishers) > 0 && len(t.Publishers) <= MaxPublishers, "number of publishers", len(t.Publishers), fmt.Sprintf("1 to %d", MaxPublishers))
	for i, p := range t.Publishers {
		if !positive(p.Rate) {
			wrong(false, fmt.Sprintf("rate of publisher %d", i), p.Rate, "messages a second above 0")
			break
		}
	}
	return errors.Join(errs...)
}

// Distribution places a new topic in rounds. In each one the driver gives every broker the
// publishers of Plan, lets it serve them for a while, and tells by Observe the p99 of the
// brokers that Measuring names; Next begins the next round.
//
// Without a model the first round uses as few brokers as have the room by rate, and brokers that
// miss the objective search, side by side, how many publishers they can hold; the others go to further
// brokers (section 4.2). With a model the first round uses as many brokers as it says,
// and a miss corrects the model: an even split over one broker more beats a full broker
// beside a small share. Where brokers are fast enough and messages that come evenly wait for tokens, one broker less is tried,
// since dividing a bucket never lets messages go earlier (section 3), unless groups are divided exactly; and if that does not do, a larger number
// that divides groups exactly, however often the model was wrong.
// The model is not asked for as many brokers as have been fast enough already. When it was wrong too often, the best placement of these
// stands, if there is one; else the search decides.
//
// Where no placement meets the objective, the one with everybody placed and the least p99 stands.
type Distribution struct {
	topic    Topic
	brokers  []Broker
	model    *Model
	at       []int // broker of each publisher
	parts    []part
	round    int
	restarts int
	least    int
	room     []float64 // of each broker, in messages a second, where the model limits it
	tried    []int     // numbers of brokers that the model has asked for
	best     []int     // the placement of everybody that meets the objective, or has the least p99, so far
	least99  float64
	unit     unit
	forced   bool // some publishers are where measurements left no room
	met      int  // the fewest brokers that were fast enough in some round, with everybody placed; 0: none were
	done     bool
}

// part is what one broker has of the topic.
type part struct {
	rate     float64
	fit      *Fit // while it is measured
	assigned []int
	last     Seen
	seen     bool // measured in this round
	full     bool
}

// NewDistribution begins to place a topic on brokers, whose loads do not include it. model
// may be nil.
func NewDistribution(topic Topic, brokers []Broker, model *Model) (*Distribution, error) {
	if err := topic.Check(); err != nil {
		return nil, err
	}
	d := &Distribution{topic: topic, brokers: slices.Clone(brokers), at: make([]int, len(topic.Publishers)), parts: make([]part, len(brokers))}
	if topic.Batch == 0 {
		d.topic.Batch = 1
	}
	if model != nil {
		m := *model
		d.model, d.unit = &m, topic.unit()
		for b := range d.brokers { // a model knows the room in time, which rates only stand for
			busy := d.brokers[b].busy()
			d.brokers[b].Capacity = 1 / m.Cost
			d.brokers[b].Load, d.brokers[b].Busy = busy/m.Cost, busy
		}
		d.least, d.room = d.enough(1)
		d.tried = append(d.tried, d.least)
	}
	d.restart()
	return d, nil
}

// Plan returns the broker of each publisher in this round, or Nowhere.
func (d *Distribution) Plan() []int { return d.at }

// Shares returns what each broker has of the bucket in this round: as much as of the rate.
func (d *Distribution) Shares() []Bucket {
	out := make([]Bucket, len(d.parts))
	for b := range d.parts {
		out[b] = d.topic.Split(d.parts[b].rate / d.rate(nil))
	}
	return out
}

// Measuring reports whether a broker is due to be measured in this round.
func (d *Distribution) Measuring(broker int) bool { return d.parts[broker].fit != nil }

// Round returns how many rounds are over.
func (d *Distribution) Round() int { return d.round }

// Done reports whether the placement stands.
func (d *Distribution) Done() bool { return d.done }

// Unplaced returns how many publishers have no broker. If there are any when Done, more
// brokers are needed.
func (d *Distribution) Unplaced() (n int) {
	for _, b := range d.at {
		if b == Nowhere {
			n++
		}
	}
	return n
}

// Seen is what a broker measured of its share of a topic, in seconds.
type Seen struct {
	// P99 is from the arrival of a message to its delivery.
	P99 float64
	// Processing is the p99 of the part that is the broker's: from the token on.
	Processing float64
}

// Observe tells what a broker measured in this round. Without a model P99 decides. With one Processing
// does: what a bucket delays follows from how it is divided, and a broker more does not make it less.
func (d *Distribution) Observe(broker int, s Seen) {
	p := &d.parts[broker]
	p.last, p.seen = s, true
}

// decisive returns the p99 that decides about a broker.
func (d *Distribution) decisive(p *part) float64 {
	if d.model != nil {
		return p.last.Processing
	}
	return p.last.P99
}

// Reached reports whether every publisher has a place and no broker missed the objective when it was last
// measured. When it is false although Done, the objective is out of reach of these brokers.
func (d *Distribution) Reached() bool {
	return !d.forced && (d.best == nil || d.least99 <= d.topic.Objective)
}

// Next ends a round. A broker whose measurement is missing is measured in the next one.
func (d *Distribution) Next() {
	if d.done {
		return
	}
	d.round++
	d.remember()
	missed := d.model != nil && d.missed()
	if missed && d.restarts >= maxRestarts && d.met > 0 { // fewer brokers were tried, and do not do
		if d.more() {
			d.restart()
		} else {
			d.settle()
		}
		return
	}
	if used := d.used(); !missed && d.whole() && (d.met == 0 || used < d.met) {
		d.met = used
	}
	if missed && d.restarts < maxRestarts {
		d.restarts++
		if d.correct() || d.more() {
			d.restart()
			return
		}
		d.settle()
		return
	}
	if d.model != nil && (d.restarts < maxRestarts && (d.fewer() || d.undivided()) || d.more()) {
		d.restarts++
		d.restart()
		return
	}
	searching := false
	for b := range d.parts {
		searching = d.step(b) || searching
	}
	if !searching {
		d.place()
	}
}

// rate returns the sum of publishers' rates, of all for nil.
func (d *Distribution) rate(which []int) (sum float64) {
	if which == nil {
		for _, p := range d.topic.Publishers {
			sum += p.Rate
		}
	}
	for _, i := range which {
		sum += d.topic.Publishers[i].Rate
	}
	return sum
}

// remember keeps the placement of this round, if all publishers have a place and it is the best so far.
func (d *Distribution) remember() {
	worst := 0.0
	for b := range d.parts {
		if p := &d.parts[b]; p.rate > 0 {
			worst = max(worst, p.last.P99)
		}
	}
	met := worst <= d.topic.Objective // later ones that meet it are on fewer brokers
	if d.Unplaced() == 0 && (d.best == nil || met || worst < d.least99) {
		d.best, d.least99 = slices.Clone(d.at), worst
	}
}

// settle ends the search. Publishers that brokers gave back and nobody took go where rates leave room, or all go
// back to where they were best: late is better than nowhere.
func (d *Distribution) settle() {
	d.done = true
	if d.best != nil {
		copy(d.at, d.best)
	}
	left, publishers := d.nowhere()
	quotas, _ := Quotas(d.beside(d.brokers), d.rate(left), 0)
	for k, b := range Assign(publishers, quotas) {
		d.at[left[k]] = b
	}
	d.forced = len(left) > 0
	for b := range d.parts {
		d.parts[b].rate = d.rate(d.held(b))
	}
}

// nowhere returns the publishers that have no broker, as indices and themselves; the
// indices are never nil.
func (d *Distribution) nowhere() (which []int, publishers []Publisher) {
	which = []int{}
	for i, b := range d.at {
		if b == Nowhere {
			which, publishers = append(which, i), append(publishers, d.topic.Publishers[i])
		}
	}
	return which, publishers
}

// beside returns brokers with what they have of the topic.
func (d *Distribution) beside(brokers []Broker) []Broker {
	room := slices.Clone(brokers)
	for b := range room {
		room[b].Load += d.parts[b].rate
	}
	return room
}

// restart takes all publishers back and places them anew.
func (d *Distribution) restart() {
	for i := range d.at {
		d.at[i] = Nowhere
	}
	clear(d.parts)
	d.place()
}

// place gives what has no broker to those that have room, and has these measured.
func (d *Distribution) place() {
	free, publishers := d.nowhere()
	room := d.beside(d.offers(d.room))
	for b := range room {
		room[b].Full = room[b].Full || d.parts[b].full
	}
	var quotas []float64
	if d.model != nil && len(free) == len(d.at) {
		quotas, _, _ = d.predicted(d.least, d.room)
	} else {
		quotas, _ = Quotas(room, d.rate(free), d.least)
	}
	placed := false
	for k, b := range Assign(publishers, quotas) {
		if b != Nowhere {
			d.at[free[k]], placed = b, true
		}
	}
	if !placed || len(free) == 0 {
		d.settle()
		return
	}
	held := make([][]int, len(d.parts))
	for i, b := range d.at {
		if b != Nowhere {
			held[b] = append(held[b], i)
		}
	}
	for b, all := range held {
		if len(all) > len(d.parts[b].assigned) {
			d.parts[b] = part{rate: d.rate(all), assigned: all, fit: NewFit(len(all), len(all))}
		}
	}
}

// step takes a broker's search one round further and reports whether it goes on.
func (d *Distribution) step(broker int) bool {
	p := &d.parts[broker]
	if p.fit == nil {
		return false
	}
	if !p.seen {
		return true
	}
	p.seen = false
	p.fit.Observe(d.decisive(p), d.topic.Objective)
	n, over := p.fit.Try()
	d.keep(broker, n)
	if over {
		if n < len(p.assigned) {
			p.full, p.assigned = true, d.held(broker)
		}
		p.fit = nil
	}
	return !over
}

// keep leaves n of its assigned publishers with a broker, as many of each group as of the
// others.
func (d *Distribution) keep(broker, n int) {
	p := &d.parts[broker]
	all := make([]Publisher, len(p.assigned))
	for k, i := range p.assigned {
		all[k] = d.topic.Publishers[i]
	}
	part := d.rate(p.assigned) * float64(n) / float64(max(len(p.assigned), 1))
	for k, at := range Assign(all, []float64{part}) {
		d.at[p.assigned[k]] = broker
		if at == Nowhere || n == 0 {
			d.at[p.assigned[k]] = Nowhere
		}
	}
	p.rate = d.rate(d.held(broker))
}

// held returns the publishers at a broker; never nil.
func (d *Distribution) held(broker int) []int {
	held := []int{}
	for i, b := range d.at {
		if b == broker {
			held = append(held, i)
		}
	}
	return held
}
