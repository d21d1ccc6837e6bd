package rates

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestDrainSparesTheModest: while the queue that one workflow made is drained, one
// within its share is not limited below what it wants.
func TestDrainSparesTheModest(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 10}}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	send := func(name string, come, end int) Workflow {
		w := a.Workflow(now, name)
		for i := range come {
			r := Request{Workflow: w, Deadline: mono.Never}
			a.OnArrival(now, &r)
			if i < end {
				a.OnUse(w, 0, 40*time.Millisecond)
				a.OnDone(now, &r, work.Done)
			}
		}
		return w
	}
	var modest, greedy Workflow
	for range 300 {
		// 4 of 10 workers, and 40 of which 6 are to be had.
		modest, greedy = send("modest", 10, 10), send("greedy", 100, 15)
		now = now.Add(100 * time.Millisecond)
		p := Pressure{Delay: time.Second, Target: 10 * time.Millisecond} // half is kept back
		a.OnWake(now, Signals{Resources: []Pressure{p}})
	}
	if got := a.Rate(modest); got < 99 {
		t.Errorf("who wants 100/s, less than a fair share, is limited to %.1f/s", got)
	}
	if got := a.Rate(greedy); !near(got, 2.5/0.04) {
		t.Errorf("who made the queue is limited to %.1f/s, expected half of half of the workers: %.1f/s", got, 2.5/0.04)
	}
}

// TestCostOfBursts: requests of exponential length that begin together end in the
// order of their length. The cost is about their mean all the same, at any time.
func TestCostOfBursts(t *testing.T) {
	const (
		n      = 40
		mean   = 0.2
		period = 0.1
	)
	a, err := New(0, Config{Resources: []Resource{{"workers", n}}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	w := a.Workflow(now, "w")
	low, high := math.Inf(1), 0.0
	for burst := range 6 {
		requests := make([]Request, n)
		for i := range requests {
			requests[i] = Request{Workflow: w, Deadline: mono.Never}
			a.OnArrival(now, &requests[i])
		}
		for k := range 20 {
			from := float64(k) * period
			for i := range requests {
				length := -mean * math.Log(1-(float64(i)+0.5)/n)
				if used := math.Min(length-from, period); used > 0 {
					a.OnUse(w, 0, time.Duration(used*1e9))
					if length <= from+period {
						a.OnDone(now, &requests[i], work.Done)
					}
				}
			}
			now = now.Add(100 * time.Millisecond)
			a.OnWake(now, Signals{})
			if burst > 1 {
				cost := a.flow(w).cost(0)
				low, high = math.Min(low, cost), math.Max(high, cost)
			}
		}
	}
	if low < 0.7*mean || high > 1.3*mean {
		t.Errorf("the cost is between %.3f and %.3f, expected about %v", low, high, mean)
	}
}
