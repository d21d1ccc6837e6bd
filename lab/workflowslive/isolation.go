package workflowslive

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func isolation() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/isolation-live",
		Title: "one tenant at five times its share, on real gRPC: what it costs the others (Wisp, figure 7)",
		About: `Six processes: two front ends, two partition servers, two extent nodes of 16 workers. A to D: 30/s each, 4 ms at a
partition server and twice 40 ms at the extent nodes, exponential: less than half of an equal share. F comes later, with
twice 80 ms, as in the simulated form, at five times what A to D leave of the extent nodes. Who is next in a queue waits for
a worker: 5 ms here, an eighth of what A's read takes; with 8 workers and reads of 15 and 50 ms it would be two fifths of it.
Arrivals are Poisson, callers wait for 1 s. What is compared are two stretches of equal length, in which each workflow's
requests ask for the same work; the p99 is the mean over the seeds. Deadlines alone; rates with queues in order of
arrival; rates with fair queues. A workflow's throughput is the share of its offered requests that was answered in
time. F's first second and a half is its own: the limits are found in it.`,
		Live: true,
		Run:  runIsolation,
	}
}

const (
	isolationName = "isolation"
	victims       = 4 // A to D
	victimRate    = 30
	victimRead    = 40 * ms
	aggressorRead = 80 * ms
	extentSize    = 16
	tierSize      = 2 // processes of each tier
)

// aggressorShare is what A to D leave for F, in requests/s: they want less than an
// equal share, and it may have the rest.
func aggressorShare() float64 {
	left := tierSize*extentSize - victims*victimRate*(2*victimRead).Seconds()
	return left / (2 * aggressorRead).Seconds()
}

// settle is how long F runs before the second stretch begins.
const settle = 1500 * ms

// stretch is how long each of the two that are compared is.
func stretch(w *world.World) time.Duration { return (w.Length - w.Warmup - settle) / 2 }

// isolationWorld has F begin after warm and length, and lasts for as long again, settle later.
func isolationWorld(warm, length, settle time.Duration) *world.World {
	begin := warm + length
	w := &world.World{Name: isolationName, Objective: time.Second, Warmup: warm, Length: begin + settle + length, Services: []world.Service{
		{Name: "FE", Replicas: tierSize},
		{Name: "PS", Replicas: tierSize, Workers: 8, Async: true},
		{Name: "EN", Replicas: tierSize, Workers: extentSize}}}
	for i, read := range []time.Duration{victimRead, aggressorRead} {
		name := []string{"victim", "aggressor"}[i]
		for k, m := range []world.Method{method(name, calls("PS", name)), method(name, waits(4*ms, ""), calls("EN", name), calls("EN", name)), method(name, waits(read, ""))} {
			w.Services[k].Methods = append(w.Services[k].Methods, m)
		}
	}
	for i := range victims {
		w.Clients = append(w.Clients, flow(string(rune('A'+i)), length, asks("victim"), world.Rate{PerSecond: victimRate}))
	}
	w.Clients = append(w.Clients, flow("F", length, asks("aggressor"), world.Rate{}, world.Rate{At: begin, PerSecond: 5 * aggressorShare()}))
	return w
}

func runIsolation(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	warm, length, retakes := 2*time.Second, 20*time.Second, 4
	beside := length
	if o.Quick {
		warm, length, beside, retakes = time.Second, 8*time.Second, 2*time.Second, 1
	}
	jobs := isolationJobs(o, warm, length, beside)
	r := &experiment.Result{Quick: o.Quick}
	// A tenth of the work of the shortest.
	out, err := results(ctx, o, r, jobs, (4*ms+2*victimRead)/10, retakes)
	if err != nil {
		return nil, err
	}
	t := &table.Table{Title: "While F runs at five times its share", Columns: []table.Column{{Name: "control"}, {Name: "seed"}, {Name: "workflow"},
		{Name: "in time before", Unit: "/s", Format: "%.1f"}, {Name: "with F", Unit: "/s", Format: "%.1f"}, {Name: "kept", Unit: "of throughput", Format: "%.3f"},
		{Name: "p99 before", Unit: "ms", Format: "%.0f"}, {Name: "with F", Unit: "ms", Format: "%.0f"}, {Name: "timed out", Unit: "of requests", Format: "%.3f"},
		{Name: "refused at the entry", Unit: "of requests", Format: "%.3f"}, {Name: "further down", Unit: "of requests", Format: "%.3f"}}}
	kept, slower := math.Inf(1), 0.0
	var judged []*bed.Played
	var p99s [victims]struct{ before, with time.Duration }
	for i, j := range jobs {
		w := j.World
		length := stretch(w)
		if j.judged {
			judged = append(judged, out[i].Played)
		}
		for f := range w.Clients {
			before, with := out[i].Stretch(f, w.Warmup, w.Warmup+length), out[i].Stretch(f, w.Length-length, w.Length)
			keeps := per(with.Share(bed.Good), before.Share(bed.Good))
			var shown any = keeps
			if f == victims { // F was not there before
				shown = "–"
			}
			rate := func(s *bed.Stretch) float64 { return float64(s.By[bed.Good]) / length.Seconds() }
			t.Add(j.Policy, j.Seed, w.Clients[f].Name, rate(&before), rate(&with), shown, milliseconds(before.P99), milliseconds(with.P99),
				with.Share(bed.Expired), with.Share(bed.Refused), with.Share(bed.RefusedBelow))
			if j.judged && f < victims {
				kept = min(kept, keeps)
				p99s[f].before += before.P99
				p99s[f].with += with.P99
			}
		}
	}
	t.Note = "Published: timeouts only: all collapse; rates: A to E keep their throughput. The bars are of rates+fair."
	for _, p := range p99s {
		slower = max(slower, per(milliseconds(p.with), milliseconds(p.before)))
	}
	r.On(experiment.Machine{Ours: r.Void}, func() {
		r.Floor("throughput kept by A to D", " of that before", 0.98, 0.005, kept)
		// The largest of four, each of them the third-largest of 240 in the quick form.
		r.Ceiling("p99 of A to D", " of that before", 1.2, 0.15, slower)
		r.Ceiling("p99 of A to D together", " of that before", 1.2, 0, together(jobs[len(jobs)-1].World, judged))
	})
	r.Table = []*table.Table{t}
	r.Chart = isolationCharts(jobs, out, o.Seed)
	return r, nil
}

// isolationJobs are the runs, of which those that are judged have stretches of length, others of
// beside.
func isolationJobs(o experiment.Options, warm, length, beside time.Duration) (jobs []job) {
	for _, c := range []string{deadlines, rated} {
		jobs = append(jobs, job{Take: bed.Take{World: isolationWorld(warm, beside, settle), Policy: c, Seed: o.Seed}})
	}
	for _, seed := range seeds(o, 3) {
		jobs = append(jobs, job{bed.Take{World: isolationWorld(warm, length, settle), Policy: ratedFair, Seed: seed}, true})
	}
	return jobs
}

// together is the p99 of what A to D ask for in the second stretch as a share of that in the
// first, of all of them in several runs of one world.
func together(w *world.World, runs []*bed.Played) float64 {
	p99 := func(from time.Duration) float64 {
		s := bed.StretchOf(runs, from, from+stretch(w), 0, 1, 2, 3)
		return milliseconds(s.P99)
	}
	return per(p99(w.Length-stretch(w)), p99(w.Warmup))
}

// isolationCharts draws the runs of a seed.
func isolationCharts(jobs []job, out []made, seed uint64) (all []*plot.Chart) {
	for i, j := range jobs {
		if j.Seed == seed {
			mark := plot.Level{Name: fmt.Sprintf("F begins, %.0f/s", 5*aggressorShare()), At: j.World.Clients[victims].Load.Steps[1].At.Seconds(), Vertical: true}
			all = append(all, chart("Answers in time: "+j.Policy, plot.Axis{Label: "answers in time", Unit: "/s"}, j, out[i],
				map[string]bool{"A": true, "B": true, "C": true, "D": true, "F": true}, func(s *bed.Stretch) float64 { return float64(s.By[bed.Good]) }, mark))
		}
	}
	return all
}
