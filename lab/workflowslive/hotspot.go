package workflowslive

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
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
	permits    = 2
	pinnedRate = 80
	pinnedHold = 5 * ms
	// hotspotTarget is the delay target: what waits for the semaphore has to wait for
	// half as long as A has it, on average.
	hotspotTarget = pinnedHold / 2
)

// guestShare is what A leaves of the semaphore for B, in requests/s.
func guestShare() float64 {
	return (permits - pinnedRate*pinnedHold.Seconds()) / (2 * pinnedHold).Seconds()
}

func hotspotSetting(seed uint64, warm, length, settle time.Duration) setting {
	begin := warm + length
	double := begin + settle + length
	end := double + settle + length
	b := 1.5 * guestShare()
	return setting{
		Slots: 8, Workers: 8, Permits: permits, Deadline: time.Second, Target: hotspotTarget, Period: length, Seed: seed,
		Stretches: []stretch{{warm, begin}, {begin + settle, double}, {double + settle, end}, {begin, begin + time.Second}},
		Flows: []flow{
			{Name: "A", Profile: openloop.Steady(pinnedRate, end), Work: pinnedHold, Lock: true, Reads: 1, Read: 4 * ms, Pinned: true},
			{Name: "B", Profile: openloop.Profile{{Rate: 0, For: begin}, {Rate: b, For: double - begin}, {Rate: 2 * b, For: end - double}},
				Work: 2 * pinnedHold, Lock: true, Reads: 1, Read: 4 * ms, Pinned: true},
			{Name: "C", Profile: openloop.Steady(150, end), Work: 2 * ms, Reads: 2, Read: 8 * ms},
		},
	}
}

func runHotspot(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	warm, length, settle, retakes := 2*time.Second, 20*time.Second, 2*time.Second, 4
	beside := length
	if o.Quick {
		warm, length, settle, beside, retakes = time.Second, 3*time.Second, 1500*ms, time.Second, 0
	}
	jobs := []job{{control: deadlines, setting: hotspotSetting(o.Seed, warm, beside, settle)}}
	for _, seed := range seeds(o, 3) {
		for _, c := range []control{rated, ratedFair} {
			jobs = append(jobs, job{c, hotspotSetting(seed, warm, length, settle), true})
		}
	}
	r := &experiment.Result{Quick: o.Quick}
	out, err := results(ctx, o, r, jobs, retakes)
	if err != nil {
		return nil, err
	}
	t := &table.Table{Title: "Latency before, after B came, after it doubled", Columns: []table.Column{{Name: "control"}, {Name: "seed"}, {Name: "workflow"},
		{Name: "median before", Unit: "ms", Format: "%.1f"}, {Name: "B's first second", Unit: "ms", Format: "%.1f"}, {Name: "with B", Unit: "ms", Format: "%.1f"}, {Name: "with twice B", Unit: "ms", Format: "%.1f"},
		{Name: "p99 before", Unit: "ms", Format: "%.0f"}, {Name: "with twice B", Unit: "ms", Format: "%.0f"}, {Name: "kept", Unit: "of throughput", Format: "%.3f"},
		{Name: "refused at the entry", Unit: "of requests", Format: "%.3f"}, {Name: "further down", Unit: "of requests", Format: "%.3f"}}}
	type figures struct {
		first, second, beside, throttled float64
		machine                          experiment.Machine
	}
	worst := map[control]*figures{rated: {}, ratedFair: {}}
	for i, j := range jobs {
		for f, flow := range j.setting.Flows {
			s := out[i].flows[f].Stretches
			before, with, twice, leap := &s[0], &s[1], &s[2], &s[3]
			var kept any = per(twice.Attainment, before.Attainment)
			if before.Offered == 0 { // it was not there before
				kept = "–"
			}
			t.Add(string(j.control), j.setting.Seed, flow.Name, milliseconds(before.Latency.P50), milliseconds(leap.Latency.P50), milliseconds(with.Latency.P50), milliseconds(twice.Latency.P50),
				milliseconds(before.Latency.P99), milliseconds(twice.Latency.P99), kept, refused(twice, atEntry), refused(twice, further))
			if !j.judged {
				continue
			}
			w := worst[j.control]
			switch flow.Name {
			case "A":
				w.first = max(w.first, per(milliseconds(with.Latency.P50), milliseconds(before.Latency.P50)))
				w.second = max(w.second, per(milliseconds(twice.Latency.P50), milliseconds(before.Latency.P50)))
			case "C":
				w.beside = max(w.beside, per(milliseconds(twice.Latency.P99), milliseconds(before.Latency.P99)))
				w.throttled = max(w.throttled, per(float64(twice.Refused), float64(twice.Offered)))
			}
		}
		if w, why := worst[j.control], out[i].disturbed; why != "" {
			w.machine.Ours = append(w.machine.Ours, why)
		}
		r.Notes = append(r.Notes, note(j, out[i]))
	}
	t.Note = "Published (a plot): A returns to its level within seconds of both leaps; the background is not throttled."
	for _, c := range []control{rated, ratedFair} {
		w := worst[c]
		r.On(w.machine, func() {
			r.Ceiling("A's median with B, "+string(c), " of that before", 1.5, 0.1, w.first)
			r.Ceiling("A's median with twice B, "+string(c), " of that before", 1.5, 0.1, w.second)
			r.Ceiling("p99 of C with twice B, "+string(c), " of that before", 1.2, 0.15, w.beside)
			r.Ceiling("C refused, "+string(c), " of offered", 0.005, 0, w.throttled)
		})
	}
	r.Table = []*table.Table{t}
	for i, j := range jobs {
		if j.setting.Seed == o.Seed {
			s := j.setting.Stretches
			r.Chart = append(r.Chart, chart("A's and C's latency: "+string(j.control), plot.Axis{Label: "mean latency", Unit: "ms", Log: true}, &j.setting, out[i], []string{"A", "C"}, latency,
				plot.Level{Name: "B", At: seconds(s[0].To), Vertical: true}, plot.Level{Name: "twice B", At: seconds(s[1].To), Vertical: true}))
		}
	}
	return r, nil
}

// latency is the mean latency of what was answered.
func latency(windows []measure.Span) float64 {
	var sum, n float64
	for i := range windows {
		l := &windows[i].Latency
		sum += float64(l.Count) * milliseconds(l.Mean)
		n += float64(l.Count)
	}
	return per(sum, n)
}
