package rates

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// busyAdapter has so many workflows, each called by as many upstream processes
// and calling as many downstream processes of ten services, all of which have
// announced limits.
func busyAdapter(t testing.TB, policy Policy, workflows, peers int) (*Adapter, []Workflow, []Peer) {
	a, err := New(0, Config{Policy: policy, Resources: []Resource{{"workers", 8}, {"connections", 32}}})
	if err != nil {
		t.Fatal(err)
	}
	var ws []Workflow
	var down []Peer
	for i := range workflows {
		ws = append(ws, a.Workflow(0, fmt.Sprint("w", i)))
	}
	for i := range peers {
		down = append(down, a.Peer(0, fmt.Sprint("s", i%10), fmt.Sprint("d", i)))
	}
	for _, w := range ws {
		for _, d := range down {
			r := Request{Workflow: w, From: d, Deadline: mono.Never}
			a.OnArrival(0, &r)
			a.OnUse(w, 0, time.Millisecond)
			a.OnUse(w, 1, time.Millisecond)
			for _, to := range down {
				a.OnCall(0, &r, to, 0)
			}
			a.OnDone(0, &r, work.Done)
		}
	}
	return a, ws, down
}

func announceAll(a *Adapter, now mono.Time, ws []Workflow, down []Peer) {
	for i, w := range ws {
		for k, d := range down {
			a.OnRate(now, w, d, float64(10+(i*7919+k*104729)%1000))
		}
	}
}

// BenchmarkOnWake is one decision about 100 workflows, each with 100 upstream and
// 100 downstream processes, under overload.
func BenchmarkOnWake(b *testing.B) {
	for p := range numPolicies {
		b.Run(p.String(), func(b *testing.B) {
			a, ws, down := busyAdapter(b, p, 100, 100)
			now := mono.Time(0)
			over := Signals{Resources: []Pressure{{time.Second, time.Millisecond, 0}, {time.Second, time.Millisecond, 0}}}
			announceAll(a, now, ws, down)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(100 * time.Millisecond)
				// Rates stay fresh without the time that announcing them takes.
				for _, f := range a.flows {
					for i := range f.branches {
						for k := range f.branches[i].links {
							f.branches[i].links[k].at, f.branches[i].links[k].heard = now, now
						}
					}
					for i := range f.sources {
						f.sources[i].heard = now
					}
					f.heard = now
				}
				for i := range a.peers.rows {
					a.peers.rows[i].heard = now
				}
				a.OnWake(now, over)
			}
		})
	}
}

// BenchmarkEvents is one request's events: arrival, the limit, two calls, an
// announcement each, one use, the end, an announcement upstream.
func BenchmarkEvents(b *testing.B) {
	a, ws, down := busyAdapter(b, BottleneckFair, 100, 100)
	now := mono.Time(0)
	r := Request{Deadline: mono.Never}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		r.Workflow, r.From = ws[i%len(ws)], down[i%len(down)]
		a.OnArrival(now, &r)
		a.Enter(now, &r)
		for k := range 2 {
			d := down[(i+k)%len(down)]
			a.OnCall(now, &r, d, 0)
			a.OnRate(now, r.Workflow, d, 100)
		}
		a.OnUse(r.Workflow, 0, time.Millisecond)
		a.OnDone(now, &r, work.Done)
		a.Announce(r.Workflow, r.From)
	}
}

func BenchmarkArrival(b *testing.B) {
	a, ws, down := busyAdapter(b, BottleneckFair, 100, 100)
	r := Request{Deadline: mono.Never}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		r.Workflow, r.From = ws[i%len(ws)], down[i%len(down)]
		a.OnArrival(0, &r)
	}
}

// TestEventsDoNotAllocate, nor does a decision.
func TestEventsDoNotAllocate(t *testing.T) {
	a, ws, down := busyAdapter(t, BottleneckFair, 20, 20)
	now := mono.Time(0)
	r := Request{Deadline: mono.Never}
	over := Signals{Resources: []Pressure{{Delay: time.Second, Target: time.Millisecond}}}
	period := func() {
		for i, w := range ws {
			for range 20 {
				r.Workflow, r.From, r.Demand = w, down[i%len(down)], 100
				a.OnArrival(now, &r)
				a.Enter(now, &r)
				for _, d := range down {
					a.OnCall(now, &r, d, 0)
					a.OnRate(now, w, d, 100)
				}
				a.OnUse(w, 0, time.Millisecond)
				a.OnDone(now, &r, work.Done)
				a.Announce(w, r.From)
				a.Demand(w, down[0])
				a.OnCancel(&r)
			}
		}
		now = now.Add(100 * time.Millisecond)
		a.OnWake(now, over)
	}
	for range 10 {
		period()
	}
	if n := testing.AllocsPerRun(20, period); n != 0 {
		t.Errorf("%v allocations a period, want none", n)
	}
}
