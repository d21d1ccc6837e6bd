package rates

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/spillgate/spillgate/internal/seeded"
)

func near(got, want float64) bool {
	return math.Abs(got-want) <= 1e-9*math.Max(1, math.Max(math.Abs(got), math.Abs(want)))
}

func allNear(got, want []float64) bool {
	return slices.EqualFunc(got, want, near)
}

func TestMaxMin(t *testing.T) {
	for _, tt := range []struct {
		name             string
		capacity         float64
		demands, weights []float64
		want             []float64
	}{
		{"the paper's e2", 500, []float64{400, 100, 100}, nil, []float64{300, 100, 100}},
		{"two over, two under", 10, []float64{10, 4, 2, 2}, nil, []float64{3, 3, 2, 2}},
		{"enough for all", 10, []float64{1, 2}, nil, []float64{1, 2}},
		{"just enough", 10, []float64{4, 6}, nil, []float64{4, 6}},
		{"by weight", 12, []float64{100, 100, 1}, []float64{1, 2, 1}, []float64{11.0 / 3, 22.0 / 3, 1}},
		{"unbounded demand", 9, []float64{math.Inf(1), 2}, nil, []float64{7, 2}},
		{"nothing there", 0, []float64{5, 1}, nil, []float64{0, 0}},
		{"what is no number wants nothing", 4, []float64{math.NaN(), -3, 9}, nil, []float64{0, 0, 4}},
		{"nobody", 4, nil, nil, nil},
	} {
		if got := MaxMin(tt.capacity, tt.demands, tt.weights); len(got) != len(tt.want) || !allNear(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDRF(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		name             string
		capacity         []float64
		costs            [][]float64
		demands, weights []float64
		want             []float64
	}{
		{"the paper's example", []float64{9, 18}, [][]float64{{1, 4}, {3, 1}}, []float64{inf, inf}, nil, []float64{3, 2}},
		{"one resource is max-min", []float64{10}, [][]float64{{1}, {1}, {1}, {1}}, []float64{10, 4, 2, 2}, nil, []float64{3, 3, 2, 2}},
		{"disjoint resources", []float64{10, 6}, [][]float64{{1, 0}, {0, 2}}, []float64{inf, inf}, nil, []float64{10, 3}},
		{"demand met early", []float64{9, 18}, [][]float64{{1, 4}, {3, 1}}, []float64{1, inf}, nil, []float64{1, 8.0 / 3}},
		{"by weight", []float64{12}, [][]float64{{1}, {1}}, []float64{inf, inf}, []float64{1, 2}, []float64{4, 8}},
		{"what costs nothing is not limited", []float64{12}, [][]float64{{0}, {1}}, []float64{7, inf}, nil, []float64{7, 12}},
		{"no capacity", []float64{0}, [][]float64{{1}}, []float64{5}, nil, []float64{0}},
	} {
		if got := DRF(tt.capacity, tt.costs, tt.demands, tt.weights); !allNear(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMaxMinProperties: nothing is given that is not wanted or not there, all of
// it is given if wanted, and nobody gets less per weight than another, unless it
// wants no more.
func TestMaxMinProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		capacity := rapid.Float64Range(0, 1000).Draw(t, "capacity")
		demands := rapid.SliceOfN(rapid.Float64Range(0, 1000), n, n).Draw(t, "demands")
		weights := rapid.SliceOfN(rapid.Float64Range(0.01, 100), n, n).Draw(t, "weights")
		shares := MaxMin(capacity, demands, weights)
		sum, wanted := 0.0, 0.0
		for i, s := range shares {
			sum += s
			wanted += demands[i]
			if s < 0 || s > demands[i] {
				t.Fatalf("%d gets %v of a demand of %v", i, s, demands[i])
			}
			for j, o := range shares {
				if s < demands[i]-1e-6 && s/weights[i] < o/weights[j]-1e-6 {
					t.Fatalf("%d gets %v per weight and wants more, %d has %v", i, s/weights[i], j, o/weights[j])
				}
			}
		}
		if want := math.Min(capacity, wanted); math.Abs(sum-want) > 1e-6 {
			t.Fatalf("%v given, want %v", sum, want)
		}
	})
}

// TestDRFProperties: no resource is given twice, and whoever wants more is held
// back by a resource that is used up, in which nobody with a larger dominant
// share per weight has grown beyond it.
func TestDRFProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 8).Draw(t, "users"), rapid.IntRange(1, 4).Draw(t, "resources")
		capacity := rapid.SliceOfN(rapid.Float64Range(1, 100), m, m).Draw(t, "capacity")
		demands := rapid.SliceOfN(rapid.Float64Range(0, 200), n, n).Draw(t, "demands")
		weights := rapid.SliceOfN(rapid.Float64Range(0.1, 10), n, n).Draw(t, "weights")
		costs := make([][]float64, n)
		for i := range costs {
			costs[i] = rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.1, 10)), m, m).Draw(t, "cost")
		}
		tasks := DRF(capacity, costs, demands, weights)
		used, share := make([]float64, m), make([]float64, n)
		for i, x := range tasks {
			if x < 0 || x > demands[i]+1e-6 {
				t.Fatalf("%d gets %v tasks of %v", i, x, demands[i])
			}
			for r, c := range costs[i] {
				used[r] += c * x
				share[i] = math.Max(share[i], c*x/capacity[r]/weights[i])
			}
		}
		for r := range used {
			if used[r] > capacity[r]*(1+1e-6) {
				t.Fatalf("resource %d: %v used of %v", r, used[r], capacity[r])
			}
		}
		for i, x := range tasks {
			held := x >= demands[i]-1e-6
			for r, c := range costs[i] {
				if c == 0 || used[r] < capacity[r]*(1-1e-6) {
					continue
				}
				largest := true
				for j := range tasks {
					largest = largest && (costs[j][r] == 0 || share[j] <= share[i]+1e-6)
				}
				held = held || largest
			}
			if !held {
				t.Fatalf("%d has %v of %v tasks, and nothing that is used up holds it back", i, x, demands[i])
			}
		}
	})
}

// TestLevel: what the others may have when the largest claimant takes all it can
// get.
func TestLevel(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity float64
		demands  []float64
		want     float64
	}{
		{"overload", 500, []float64{400, 100, 100}, 300},
		{"no overload: as if the largest wanted more", 500, []float64{300, 100}, 400},
		{"alone", 500, []float64{3}, 500},
		{"all the same", 90, []float64{50, 50, 50}, 30},
		{"nothing to give", 0, []float64{50, 20}, 0},
		{"nobody", 7, nil, math.Inf(1)},
	} {
		var f filler
		for i, d := range tt.demands {
			f.add(i, d, 1)
		}
		if got := f.level(tt.capacity); !near(got, tt.want) && got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// MaxMin divides capacity: nobody gets more than its demand, and nobody could
// get more without taking from somebody who has less per weight. weights may be
// nil for equal ones. Negative or missing numbers count as 0, weights that are
// not above 0 as 1.
func MaxMin(capacity float64, demands, weights []float64) []float64 {
	var f filler
	var total float64
	for i, d := range demands {
		f.add(i, atLeastZero(d), weightOf(weights, i))
		total += atLeastZero(d)
	}
	level := math.Inf(1)
	if !(total <= capacity) {
		level = f.level(atLeastZero(capacity))
	}
	shares := make([]float64, len(demands))
	for _, c := range f.claims {
		shares[c.who] = min(c.demand, level*c.weight)
	}
	return shares
}

// DRF gives each of several users as many tasks as keep their dominant shares
// max-min fair: costs[i][r] is what one task of i takes of resource r, demands[i]
// the most tasks that i wants, +Inf for any number, weights as for MaxMin. Tasks
// are divisible. Someone whose tasks cost nothing gets its demand.
func DRF(capacity []float64, costs [][]float64, demands, weights []float64) []float64 {
	users := make([]drfUser, len(costs))
	for i := range costs {
		users[i] = drfUser{cost: costs[i], demand: atLeastZero(demands[i]), weight: weightOf(weights, i)}
	}
	left := slices.Clone(capacity)
	saturated := make([]float64, len(capacity))
	drf(capacity, left, saturated, users)
	tasks := make([]float64, len(costs))
	for i := range users {
		tasks[i] = users[i].tasks
	}
	return tasks
}

func weightOf(weights []float64, i int) float64 {
	if weights == nil || !(weights[i] > 0) {
		return 1
	}
	return weights[i]
}
