package workflows

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func deadlines() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/deadlines",
		Title: "latency ÷ deadline of a mixed load, with rates and with orders (Wisp, table 3)",
		About: `100 to 250 clients in a closed loop ask a store for gets, puts, metadata and scans; each request's deadline is four
times what it takes alone. The baseline has no control; the others limit workflows, and serve in order of arrival,
by deadline and by slack. The paper's trace is not public: the mix is synthetic and was calibrated to its first row.
A limit may take a tenth of the budget. By slack must be no worse than in order of arrival behind the same limits either.
Requests that were let in and given up at the deadline count as 1 or more: the percentiles are of all admitted.`,
		Run: runDeadlines,
	}
}

// limitShare is the share of its budget that a request may wait at a limit here.
// Budgets are four times what a request takes alone: with the default, half of it,
// the limits made up most of the delay, and 8 % fewer were in time.
const limitShare = 0.1

func deadlinesWorld(seed uint64, control mesh.Control, clients int, warmup, length time.Duration) mesh.Config {
	flows, mix := mesh.StorageMix(mesh.Deadline{Multiple: 4})
	return mesh.Config{Seed: seed, Services: mesh.Storage(2), Workflows: flows, Control: control,
		Groups: []mesh.Group{{Mix: mix, Load: mesh.Closed(clients, 300*ms)}}, Warmup: warmup, Length: length}
}

// admittedRatio returns the q-quantile of latency ÷ deadline of the requests that
// were not refused. What has no answer is above any number.
func admittedRatio(c *mesh.Count, q float64) float64 {
	answered := c.Good + c.Late
	admitted := answered + c.GaveUp + c.TimedOut + c.Lost
	if admitted == 0 {
		return math.NaN()
	}
	at := q * float64(admitted) / float64(max(answered, 1))
	if at > 1 {
		return math.Inf(1)
	}
	return c.Ratio(at)
}

// missedShare returns how many of the admitted requests missed their deadline.
func missedShare(c *mesh.Count) float64 {
	return per(float64(c.Late+c.GaveUp+c.TimedOut), float64(c.Ended()-c.AllRefused()))
}

// publishedRatios is table 3 of the paper: mean, p95, p99.
var publishedRatios = map[string][3]string{
	"100 none": {".39", ".75", ".98"}, "100 rates+fifo": {".34", ".64", ".95"}, "100 rates+edf": {".30", ".52", ".71"}, "100 rates+lstf": {".32", ".71", ".81"},
	"150 none": {".61", "1.32", "5.68"}, "150 rates+fifo": {".33", ".60", ".84"}, "150 rates+edf": {".31", ".52", ".69"}, "150 rates+lstf": {".30", ".51", ".71"},
	"200 none": {"1.09", "2.75", "18.47"}, "200 rates+fifo": {".71", "1.63", "2.95"}, "200 rates+edf": {".38", ".79", "1.17"}, "200 rates+lstf": {".34", ".61", ".87"},
	"250 none": {"1.33", "4.83", "19.71"}, "250 rates+fifo": {".98", "2.58", "10.5"}, "250 rates+edf": {".49", "1.25", "2.15"}, "250 rates+lstf": {".46", "1.12", "1.82"},
}

func runDeadlines(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	warmup, length := 10*time.Second, 70*time.Second
	clients, all := []int{100, 150, 200, 250}, seeds(o, 3, 2)
	if o.Quick {
		clients, length = []int{100, 250}, 40*time.Second
	}
	impatient := func(order schedule.Order) mesh.Control {
		// Who waits too long is dropped at each hop, which drains the queues: nothing
		// need be kept back for it. With 5 % kept back, 2 % more were refused.
		return mesh.RatesOrdered(order, rates.Config{WaitShare: limitShare, Headroom: -1})
	}
	controls := []mesh.Control{mesh.None(), impatient(schedule.FIFO), impatient(schedule.EDF), impatient(schedule.LSTF)}
	const baseline, inOrder, slackFirst = 0, 1, 3
	var cells []cell
	for _, n := range clients {
		for _, c := range controls {
			for _, seed := range all {
				cells = append(cells, cell{name: named(c, seed, fmt.Sprint(n, " clients")), cost: float64(n), world: deadlinesWorld(seed, c, n, warmup, length)})
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Latency ÷ deadline of admitted requests, median of the seeds", Columns: []table.Column{{Name: "clients"}, {Name: "control"},
		{Name: "mean", Format: "%.2f"}, {Name: "paper"}, {Name: "p95", Format: "%.2f"}, {Name: "paper"}, {Name: "p99", Format: "%.2f"}, {Name: "paper"},
		{Name: "refused", Unit: "of offered", Format: "%.3f"}, {Name: "missed", Unit: "of admitted", Format: "%.4f"}, {Name: "in time", Unit: "/s", Format: "%.0f"}}}
	chart := &plot.Chart{Title: "p99 of latency ÷ deadline", X: plot.Axis{Label: "clients"}, Y: plot.Axis{Label: "latency ÷ deadline", Log: true}, Levels: []plot.Level{{Name: "deadline", At: 1}}}
	lines := make([]plot.Series, len(controls))
	for a, n := range clients {
		for b, c := range controls {
			var means, p95, p99, refused, missed, good []float64
			for k := range all {
				i := (a*len(controls)+b)*len(all) + k
				all := &out[i].Total
				m := &out[i]
				means, p95, p99 = append(means, all.MeanRatio()), append(p95, admittedRatio(all, 0.95)), append(p99, admittedRatio(all, 0.99))
				refused = append(refused, per(float64(all.AllRefused()), float64(all.Ended())))
				missed = append(missed, missedShare(all))
				good = append(good, per(float64(all.Good), m.Seconds))
			}
			published := publishedRatios[fmt.Sprint(n, " ", c.Name)]
			t.Add(n, c.Name, middle(means), published[0], middle(p95), published[1], middle(p99), published[2], middle(refused), middle(missed), middle(good))
			lines[b].Name = c.Name
			lines[b].X, lines[b].Y = append(lines[b].X, float64(n)), append(lines[b].Y, middle(p99))
			if n != 250 || b != slackFirst {
				continue
			}
			var ratio, tail, drops, beside, besideMissed, besideGood worst
			for k := range all {
				base := &out[(a*len(controls)+baseline)*len(all)+k].Total
				fifo := &out[(a*len(controls)+inOrder)*len(all)+k]
				beside.high(means[k] / fifo.Total.MeanRatio())
				besideMissed.high(missed[k] / missedShare(&fifo.Total))
				besideGood.low(good[k] / per(float64(fifo.Total.Good), fifo.Seconds))
				ratio.high(means[k] / base.MeanRatio())
				tail.high(p99[k])
				drops.high(refused[k])
			}
			r.Ceiling("mean by slack, 250 clients", " of the baseline's", 0.35, 0.02, ratio.get())
			r.Ceiling("p99 by slack, 250 clients, of admitted", " of the deadline", 1, 0, tail.get())
			r.Ceiling("refused by slack, 250 clients", " of offered", 0.20, 0.01, drops.get())
			// The same limits and no order: what slack alone is worth. It must cost nothing.
			r.Ceiling("mean by slack, 250 clients, beside rates+fifo", "", 1, 0.02, beside.get())
			r.Ceiling("missed by slack, 250 clients, of admitted, beside rates+fifo", "", 1, 0.02, besideMissed.get())
			r.Floor("in time by slack, 250 clients, beside rates+fifo", "", 1, 0.02, besideGood.get())
		}
	}
	t.Note = "Paper: p99 at 250 clients 1.82 by slack, 21 % dropped by each control with rates."
	chart.Series = lines
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}
