package workflowslive

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func isolation() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/isolation-live",
		Title: "one tenant at five times its share, on real gRPC: who else is hurt (Wisp, figure 7)",
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
	victims       = 4 // A to D
	victimRate    = 30
	victimRead    = 40 * ms
	aggressorRead = 80 * ms
	extentSize    = 16
	// extentTarget is the delay target: a quarter of what A's read takes.
	extentTarget = victimRead / 4
)

// aggressorShare is what A to D leave for F, in requests/s: they want less than an
// equal share, and it may have the rest.
func aggressorShare() float64 {
	left := tierSize*extentSize - victims*victimRate*(2*victimRead).Seconds()
	return left / (2 * aggressorRead).Seconds()
}

// isolationSetting has F begin after warm and length, and counts as much of what
// comes settle later.
func isolationSetting(seed uint64, warm, length, settle time.Duration) setting {
	begin := warm + length
	end := begin + settle + length
	s := setting{
		Slots: extentSize, Workers: 8, Permits: 8, Deadline: time.Second, Target: extentTarget, Period: length, Seed: seed,
		Stretches: []stretch{{warm, begin}, {begin + settle, end}},
	}
	for i := range victims {
		s.Flows = append(s.Flows, flow{Name: string(rune('A' + i)), Profile: openloop.Steady(victimRate, end), Work: 4 * ms, Reads: 2, Read: victimRead})
	}
	s.Flows = append(s.Flows, flow{Name: "F", Work: 4 * ms, Reads: 2, Read: aggressorRead,
		Profile: openloop.Profile{{Rate: 0, For: begin}, {Rate: 5 * aggressorShare(), For: settle + length}}})
	return s
}

func runIsolation(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	warm, length, settle, retakes := 2*time.Second, 20*time.Second, 1500*ms, 4
	beside := length
	if o.Quick {
		warm, length, beside, retakes = time.Second, 5*time.Second, 2*time.Second, 1
	}
	jobs := []job{
		{control: deadlines, setting: isolationSetting(o.Seed, warm, beside, settle)},
		{control: rated, setting: isolationSetting(o.Seed, warm, beside, settle)},
	}
	for _, seed := range seeds(o, 3) {
		jobs = append(jobs, job{ratedFair, isolationSetting(seed, warm, length, settle), true})
	}
	r := &experiment.Result{Quick: o.Quick}
	out, err := results(ctx, o, r, jobs, retakes)
	if err != nil {
		return nil, err
	}
	t := &table.Table{Title: "While F runs at five times its share", Columns: []table.Column{{Name: "control"}, {Name: "seed"}, {Name: "workflow"},
		{Name: "in time before", Unit: "/s", Format: "%.1f"}, {Name: "with F", Unit: "/s", Format: "%.1f"}, {Name: "kept", Unit: "of throughput", Format: "%.3f"},
		{Name: "p99 before", Unit: "ms", Format: "%.0f"}, {Name: "with F", Unit: "ms", Format: "%.0f"}, {Name: "timed out", Unit: "of requests", Format: "%.3f"},
		{Name: "refused at the entry", Unit: "of requests", Format: "%.3f"}, {Name: "further down", Unit: "of requests", Format: "%.3f"}}}
	kept := math.Inf(1)
	var p99s [victims]struct{ before, with time.Duration }
	for i, j := range jobs {
		for f, flow := range j.setting.Flows {
			before, with := &out[i].flows[f].Stretches[0], &out[i].flows[f].Stretches[1]
			keeps := per(with.Attainment, before.Attainment)
			var shown any = keeps
			if flow.Name == "F" { // was not there before
				shown = "–"
			}
			t.Add(string(j.control), j.setting.Seed, flow.Name, before.Goodput, with.Goodput, shown, milliseconds(before.Latency.P99), milliseconds(with.Latency.P99),
				per(float64(with.TimedOut), float64(with.Offered)), refused(with, atEntry), refused(with, further))
			if j.judged && flow.Name != "F" {
				kept = min(kept, keeps)
				p99s[f].before += before.Latency.P99
				p99s[f].with += with.Latency.P99
			}
		}
		r.Notes = append(r.Notes, note(j, out[i]))
	}
	t.Note = "Published: timeouts only: all collapse; rates: A to E keep their throughput. The bars are of rates+fair. Servers: GOMAXPROCS=1, GOGC=" + serverGOGC + "; generator: GOGC=" + generatorGOGC + "."
	slower := 0.0
	for _, p := range p99s {
		slower = max(slower, per(milliseconds(p.with), milliseconds(p.before)))
	}
	r.On(experiment.Machine{Ours: r.Void}, func() {
		r.Floor("throughput kept by A to D", " of that before", 0.98, 0.005, kept)
		r.Ceiling("p99 of A to D", " of that before", 1.2, 0.15, slower)
	})
	r.Table = []*table.Table{t}
	for i, j := range jobs {
		if j.setting.Seed != o.Seed {
			continue
		}
		r.Chart = append(r.Chart, chart("Answers in time: "+string(j.control), plot.Axis{Label: "answers in time", Unit: "/s"}, &j.setting, out[i],
			[]string{"A", "B", "C", "D", "F"}, good, plot.Level{Name: fmt.Sprintf("F begins, %.0f/s", 5*aggressorShare()), At: seconds(j.setting.Stretches[0].To), Vertical: true}))
	}
	return r, nil
}

// note says what the machine did in a run.
func note(j job, m made) string {
	lag := time.Duration(0)
	for _, f := range m.flows {
		lag = max(lag, f.Result.SendLag.P99)
	}
	return fmt.Sprintf("%s, seed %d: the servers used %.0f %% of one processor; p99 of the send lag at most %v.",
		j.control, j.setting.Seed, 100*m.busy, lag.Round(10*time.Microsecond))
}

// good is answers in time per second.
func good(windows []measure.Span) float64 {
	n := 0.0
	for i := range windows {
		n += float64(windows[i].Good)
	}
	return n / seconds(windows[len(windows)-1].To-windows[0].From)
}
