package slots

import "math"

// order sums up the ranks of completions: see arrivals.
type order struct{ count, sum, top float64 }

func (o *order) add(rank int) {
	if rank > 0 {
		o.count++
		o.sum += float64(rank)
		o.top = max(o.top, float64(rank))
	}
}

func (o *order) merge(b order) {
	o.count += b.count
	o.sum += b.sum
	o.top = max(o.top, b.top)
}

// beyond is the mean rank less one: 0 where every request ends before all that started later.
func (o *order) beyond() float64 {
	if o.count == 0 {
		return 0
	}
	return o.sum/o.count - 1
}

// reach is the highest rank of the last completions, between reachMemory and twice as many.
type reach struct {
	count       int
	top, before float64
}

// reachMemory is such that a rank that comes once in 300 completions is missed once in a thousand times.
const reachMemory = 2048

func (r *reach) add(rank int) {
	if rank == 0 {
		return
	}
	if r.count++; r.count > reachMemory {
		*r = reach{before: r.top}
	}
	r.top = max(r.top, float64(rank))
}

func (r *reach) most() float64 { return max(r.top, r.before) }

// told reports whether there are enough ranks for the highest to be more than what few requests at once can have.
func (r *reach) told() bool { return r.before > 0 || r.count >= enoughRanks }

const (
	// enoughRanks is how many ranks reach the knee if times are as random as exponential ones: the highest of 48 is
	// short of it by more than a tenth once in a hundred times.
	enoughRanks = 48
	// reaches is which part of what runs the ranks reach where no queue shows.
	reaches = 0.95
	// mixed is the least mean rank, between 0 for the first and 1 for the highest, of times that are random enough:
	// exponential ones have 0.5, lognormal ones of half the variation 0.33.
	mixed = 0.4
	// ranksVary is the coefficient of variation of ranks, if all up to the knee are equally frequent: 1/√3.
	ranksVary = 0.58
)

// full reports whether the ranks, if there are enough of them, reach nearly n.
func (o *order) full(n float64) bool { return o.count >= enoughRanks && o.top >= reaches*n }

// contrast is what the ranks at two levels, with na and nb running, tell of a queue behind those in service. It is 1
// if ranks stay where they are, because requests beyond them only wait; -1 if they move with what runs, because
// nothing waits or all share what there is; 0 if they do not tell.
func contrast(a, b order, na, nb float64) int {
	if na < nb {
		a, b, na, nb = b, a, nb, na
	}
	if a.count == 0 || b.count == 0 || nb < 1.5 || a.beyond() < mixed*(a.top-1) || a.top < 2 {
		return 0 // nearly in order: their highest rank is not the knee
	}
	scaled := (nb - 1) / (na - 1)
	noise := ranksVary * math.Sqrt(1/a.count+1/b.count)
	if (1-scaled)/2 < noise {
		return 0
	}
	if b.beyond()/a.beyond() > (1+scaled)/2 {
		return 1
	}
	return -1
}
