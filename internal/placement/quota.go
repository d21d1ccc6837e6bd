package placement

import (
	"cmp"
	"slices"
)

// Broker is a node that can hold publishers.
type Broker struct {
	// Capacity is the most it serves within the objectives of its topics, in messages a second.
	Capacity float64
	// Load is what it has been given, in messages a second.
	Load float64
	// Busy is the share of its time that this takes, as measured; 0 stands for Load/Capacity.
	Busy float64
	// Full brokers get no more: a measurement has shown that.
	Full bool
}

// Residual returns the rate that a broker has to spare, in messages a second.
func (b Broker) Residual() float64 {
	if b.Full {
		return 0
	}
	return max(0, b.Capacity-b.Load)
}

// busy returns the share of a broker's time that is taken.
func (b Broker) busy() float64 {
	if b.Busy == 0 && b.Capacity > 0 {
		return b.Load / b.Capacity
	}
	return b.Busy
}

// Quotas returns how much of a rate each broker gets, in messages a second, in the order
// of brokers. The fewest that have the room for it together share it, those with the most
// room first (concentration); among these the smallest share is as large as can be
// (max-min). least is the fewest brokers to use while more have room; 0 and 1 ask for nothing.
//
// rest is what finds no room: more brokers are needed for it.
func Quotas(brokers []Broker, rate float64, least int) (quotas []float64, rest float64) {
	quotas = make([]float64, len(brokers))
	order := byRoom(brokers)
	k, room := 0, 0.0
	for k < len(order) && (room < rate || k < least) {
		room += brokers[order[k]].Residual()
		k++
	}
	// From the smallest room on: who cannot take an equal part of what is left takes
	// what it can, and the others share the rest.
	rest = rate
	for left := k; left > 0; left-- {
		i := order[left-1]
		quotas[i] = min(brokers[i].Residual(), rest/float64(left))
		rest -= quotas[i]
	}
	if rest < rate*1e-12 {
		rest = 0
	}
	return quotas, rest
}

// byRoom returns the brokers that have room, those with the most first.
func byRoom(brokers []Broker) []int {
	var order []int
	for i, b := range brokers {
		if b.Residual() > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(brokers[b].Residual(), brokers[a].Residual()) })
	return order
}
