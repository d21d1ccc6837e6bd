package workflowslive

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func hotspot() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/hotspot-live",
		Title: "two workflows meet at one partition server and its semaphore, on real gRPC (Wisp, figure 9)",
		About: `A sends 80/s to one partition server, to hold one of 2 permits of a semaphore there for 5 ms. B comes to the same one
for 10 ms, at one and a half times what A leaves of the semaphore, and doubles. C goes past both, to the extent nodes,
through all front ends and partition servers. All loads are open loops, which unlike the paper's clients do not slow
down with the servers, and service times are exponential. Figure 9 shows A's latency leap when B comes and return when
the rates are found, and the rest as it was; there queues are in order of arrival. Compared are stretches of equal
length in which each workflow's requests ask for the same work.`,
		Live: true,
		Run:  runHotspot,
	}
}

const (
	hotspotName = "hotspot"
	permits     = 2
	pinnedRate  = 80
	pinnedHold  = 5 * ms
)

// guestShare is what A leaves of the semaphore for B, in requests/s.
func guestShare() float64 {
	return (permits - pinnedRate*pinnedHold.Seconds()) / (2 * pinnedHold).Seconds()
}

// hotspotWorld has B begin after warm and length, and double after settle and length. The partition
// servers are two services, one of which A and B go to.
func hotspotWorld(warm, length, settle time.Duration) *world.World {
	const semaphore = "semaphore"
	begin := warm + length
	double := begin + settle + length
	partition := func(name string) world.Service {
		return world.Service{Name: name, Workers: 8, Async: true, Locks: []world.Lock{{Name: semaphore, Permits: permits}}, Methods: []world.Method{
			method("A", waits(pinnedHold, semaphore), calls("EN", "short")), method("B", waits(2*pinnedHold, semaphore), calls("EN", "short")),
			method("C", waits(2*ms, ""), calls("EN", "long"), calls("EN", "long"))}}
	}
	b := 1.5 * guestShare()
	return &world.World{Name: hotspotName, Objective: time.Second, Warmup: warm, Length: double + settle + length,
		Services: []world.Service{
			{Name: "FE", Replicas: tierSize, Methods: []world.Method{method("A", calls("PS0", "A")), method("B", calls("PS0", "B")), method("C0", calls("PS0", "C")), method("C1", calls("PS1", "C"))}},
			partition("PS0"), partition("PS1"),
			{Name: "EN", Replicas: tierSize, Workers: 8, Methods: []world.Method{method("short", waits(4*ms, "")), method("long", waits(8*ms, ""))}}},
		Clients: []world.Group{
			flow("A", length, asks("A"), world.Rate{PerSecond: pinnedRate}),
			flow("B", length, asks("B"), world.Rate{}, world.Rate{At: begin, PerSecond: b}, world.Rate{At: double, PerSecond: 2 * b}),
			flow("C", length, asks("C0", "C1"), world.Rate{PerSecond: 150})}}
}

func runHotspot(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	warm, length, settle, retakes := 2*time.Second, 20*time.Second, 2*time.Second, 4
	beside := length
	if o.Quick {
		warm, length, settle, beside, retakes = time.Second, 3*time.Second, 1500*ms, time.Second, 0
	}
	jobs := []job{{Take: bed.Take{World: hotspotWorld(warm, beside, settle), Policy: deadlines, Seed: o.Seed}}}
	for _, seed := range seeds(o, 3) {
		for _, c := range []string{rated, ratedFair} {
			jobs = append(jobs, job{bed.Take{World: hotspotWorld(warm, length, settle), Policy: c, Seed: seed}, true})
		}
	}
	r := &experiment.Result{Quick: o.Quick}
	out, err := results(ctx, o, r, jobs, 3*ms, retakes)
	if err != nil {
		return nil, err
	}
	t := &table.Table{Title: "Latency before, after B came, after it doubled", Columns: []table.Column{{Name: "control"}, {Name: "seed"}, {Name: "workflow"},
		{Name: "median before", Unit: "ms", Format: "%.1f"}, {Name: "B's first second", Unit: "ms", Format: "%.1f"}, {Name: "with B", Unit: "ms", Format: "%.1f"}, {Name: "with twice B", Unit: "ms", Format: "%.1f"},
		{Name: "p99 before", Unit: "ms", Format: "%.0f"}, {Name: "with twice B", Unit: "ms", Format: "%.0f"}, {Name: "kept", Unit: "of throughput", Format: "%.3f"},
		{Name: "refused at the entry", Unit: "of requests", Format: "%.3f"}, {Name: "further down", Unit: "of requests", Format: "%.3f"}}}
	worst := map[string]*figures{rated: {}, ratedFair: {}}
	for i, j := range jobs {
		came, doubled := j.World.Clients[1].Load.Steps[1].At, j.World.Clients[1].Load.Steps[2].At
		for f, flow := range j.World.Clients {
			before, leap := out[i].Stretch(f, warm, came), out[i].Stretch(f, came, came+time.Second)
			with, twice := out[i].Stretch(f, came+settle, doubled), out[i].Stretch(f, doubled+settle, j.World.Length)
			var kept any = per(twice.Share(bed.Good), before.Share(bed.Good))
			if before.Offered == 0 { // it was not there before
				kept = "–"
			}
			t.Add(j.Policy, j.Seed, flow.Name, milliseconds(before.P50), milliseconds(leap.P50), milliseconds(with.P50), milliseconds(twice.P50),
				milliseconds(before.P99), milliseconds(twice.P99), kept, twice.Share(bed.Refused), twice.Share(bed.RefusedBelow))
			if j.judged {
				worst[j.Policy].take(flow.Name, &before, &with, &twice)
			}
		}
		if j.judged {
			worst[j.Policy].machine.Ours = append(worst[j.Policy].machine.Ours, out[i].disturbed...)
		}
		if j.Seed == o.Seed {
			r.Chart = append(r.Chart, chart("A's and C's latency: "+j.Policy, plot.Axis{Label: "mean latency", Unit: "ms", Log: true}, j, out[i], map[string]bool{"A": true, "C": true},
				func(s *bed.Stretch) float64 { return milliseconds(s.Mean) },
				plot.Level{Name: "B", At: came.Seconds(), Vertical: true}, plot.Level{Name: "twice B", At: doubled.Seconds(), Vertical: true}))
		}
	}
	t.Note = "Published (a plot): A returns to its level within seconds of both leaps; the background is not throttled."
	for _, c := range []string{rated, ratedFair} {
		w := worst[c]
		r.On(w.machine, func() {
			r.Ceiling("A's median with B, "+c, " of that before", 1.5, 0.1, w.first)
			r.Ceiling("A's median with twice B, "+c, " of that before", 1.5, 0.1, w.second)
			r.Ceiling("p99 of C with twice B, "+c, " of that before", 1.2, 0.15, w.beside)
			r.Ceiling("C refused, "+c, " of offered", 0.005, 0, w.throttled)
		})
	}
	r.Table = []*table.Table{t}
	return r, nil
}

// figures are the worst of the seeds of one control.
type figures struct {
	first, second, beside, throttled float64
	machine                          experiment.Machine
}

func (w *figures) take(flow string, before, with, twice *bed.Stretch) {
	switch flow {
	case "A":
		w.first = max(w.first, per(milliseconds(with.P50), milliseconds(before.P50)))
		w.second = max(w.second, per(milliseconds(twice.P50), milliseconds(before.P50)))
	case "C":
		w.beside = max(w.beside, per(milliseconds(twice.P99), milliseconds(before.P99)))
		w.throttled = max(w.throttled, twice.Share(bed.Refused)+twice.Share(bed.RefusedBelow))
	}
}
