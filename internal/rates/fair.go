package rates

import (
	"cmp"
	"math"
	"slices"
)

func atLeastZero(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return x
}

// claim is what one workflow wants of what is divided.
type claim struct {
	who            int
	demand, weight float64
}

// filler finds water levels and keeps its memory.
type filler struct{ claims []claim }

func (f *filler) reset() { f.claims = f.claims[:0] }

func (f *filler) add(who int, demand, weight float64) {
	f.claims = append(f.claims, claim{who, demand, weight})
}

// level returns the amount per weight at which capacity is used up when everyone
// takes the smaller of its demand and its weight times the level. The largest
// demand per weight counts as unbounded, so that there is a level even where all
// demands can be met: what that one could have if it wanted more. Without claims
// the level is infinite.
func (f *filler) level(capacity float64) float64 {
	if len(f.claims) == 0 {
		return math.Inf(1)
	}
	slices.SortFunc(f.claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.demand/a.weight, b.demand/b.weight), cmp.Compare(a.who, b.who))
	})
	weights := 0.0
	for _, c := range f.claims {
		weights += c.weight
	}
	last := len(f.claims) - 1
	for _, c := range f.claims[:last] {
		if c.demand/c.weight*weights >= capacity {
			break
		}
		capacity -= c.demand
		weights -= c.weight
	}
	// Repeated subtraction may leave a little less than the last weight.
	return capacity / max(weights, f.claims[last].weight*1e-9)
}

// drfUser is one claimant of several resources at once.
type drfUser struct {
	who            int
	cost           []float64 // per task, by resource
	demand, weight float64
	dominant       float64 // largest share of a resource that one task takes
	tasks          float64
	active         bool
}

// drf fills all users at the same pace of dominant share per weight until their
// demand is met or a resource they need is used up. It leaves in left what
// remains of each resource and in saturated the level at which it was used up,
// infinite if it was not.
func drf(capacity, left, saturated []float64, users []drfUser) {
	active := 0
	for i := range users {
		u := &users[i]
		u.dominant = 0
		for r, c := range u.cost {
			u.dominant = max(u.dominant, atLeastZero(c)/capacity[r])
		}
		u.active = u.dominant > 0 && !math.IsInf(u.dominant, 1)
		u.tasks = 0
		switch {
		case u.active:
			active++
		case u.dominant == 0:
			u.tasks = u.demand
		}
	}
	for r := range saturated {
		saturated[r] = math.Inf(1)
	}
	level := 0.0
	for active > 0 {
		next := math.Inf(1)
		for i := range users {
			if u := &users[i]; u.active {
				next = min(next, u.demand*u.dominant/u.weight)
			}
		}
		full := -1
		for r := range left {
			pace := 0.0
			for i := range users {
				if u := &users[i]; u.active {
					pace += atLeastZero(u.cost[r]) * u.weight / u.dominant
				}
			}
			if at := level + left[r]/pace; pace > 0 && at <= next {
				next, full = at, r
			}
		}
		for i := range users {
			u := &users[i]
			if !u.active {
				continue
			}
			tasks := next * u.weight / u.dominant
			for r, c := range u.cost {
				left[r] = max(left[r]-(tasks-u.tasks)*atLeastZero(c), 0)
			}
			u.tasks = tasks
			if met := u.demand*u.dominant/u.weight <= next; met || full >= 0 && u.cost[full] > 0 {
				u.active = false
				active--
			}
		}
		if full >= 0 {
			left[full], saturated[full] = 0, next
		}
		level = next
	}
}
