package admissionlive

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// share is the goodput of the runs that count, as a share of the capacity of their repeats.
func (c *cell) share() (median, least, most float64) {
	runs, _ := c.Counted()
	var all []float64
	for _, r := range runs {
		i := slices.Index(c.Reports, r)
		all = append(all, goodput(r)/c.capacities[i])
	}
	slices.Sort(all)
	return all[(len(all)-1)/2], all[0], all[len(all)-1]
}

// time is the median of what f says of the runs that count.
func (c *cell) time(f func(*world.GroupReport) time.Duration) time.Duration {
	runs, _ := c.Counted()
	return time.Duration(bed.Median(runs, func(r *world.Report) float64 { return float64(f(&r.Groups[0])) }))
}

func p99(g *world.GroupReport) time.Duration  { return g.P99 }
func told(g *world.GroupReport) time.Duration { return g.Told }

// settled is the median time from the step until goodput stayed above 0.8 of the capacity.
func (c *cell) settled() string {
	if c.load > 0 {
		return "-"
	}
	runs, _ := c.Counted()
	took := bed.Median(runs, func(r *world.Report) float64 {
		step := c.setting.world(c.load, 1, time.Duration(len(r.Bins))*r.Bin).Warmup
		return settled(r, step, 0.8*c.capacities[slices.Index(c.Reports, r)])
	})
	if math.IsInf(took, 1) {
		return "never"
	}
	return time.Duration(took).String()
}

// settled is how long after the step the last bin ended whose goodput was below enough, in
// nanoseconds; without end if that was the last of all.
func settled(r *world.Report, step time.Duration, enough float64) (took float64) {
	for i, b := range r.Bins {
		from := time.Duration(i) * r.Bin
		if from < step || float64(b.Good) >= enough*r.Bin.Seconds() {
			continue
		}
		if took = float64(from + r.Bin - step); i == len(r.Bins)-1 {
			return math.Inf(1)
		}
	}
	return took
}

// tables shows all cells, a table for each station.
func tables(all []*cell) (out []*table.Table) {
	for i, c := range all {
		if i == 0 || c.setting != all[i-1].setting {
			mean := 0.0
			for _, x := range c.capacities {
				mean += x / float64(len(c.capacities))
			}
			out = append(out, &table.Table{Title: fmt.Sprintf("%s station, capacity %.0f/s", c.setting.name, mean),
				Columns: []table.Column{{Name: "load"}, {Name: "controller"}, {Name: "goodput", Unit: "of capacity", Format: "%.2f"}, {Name: "least to most"},
					{Name: "p99 served"}, {Name: "refused know p99"}, {Name: "settled"}, {Name: "undisturbed"}},
				Note: "Medians of interleaved repeats, after the first quarter of each run; disturbed ones count only if there is no other. Deadline = objective."})
		}
		median, least, most := c.share()
		out[len(out)-1].Add(loadName(c.load), c.Policy, median, fmt.Sprintf("%.2f–%.2f", least, most), round(c.time(p99)), round(c.time(told)), c.settled(),
			fmt.Sprintf("%d/%d", len(c.Reports)-len(c.Disturbed()), len(c.Reports)))
	}
	return out
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// judge states the bars.
func judge(r *experiment.Result, all []*cell) {
	t := &table.Table{Title: "Spillgate beside the best setting of the semaphore", Columns: []table.Column{{Name: "station"}, {Name: "load"},
		{Name: "spillgate", Format: "%.3f"}, {Name: "semaphore's best", Format: "%.3f"}, {Name: "reached by"}, {Name: "ratio", Format: "%.3f"}, {Name: "repeats"}},
		Note: "ratio: the median of the repeats in which neither was disturbed; the best is whom it is lowest beside."}
	for _, c := range all {
		if c.Policy != ours || c.load < 2 {
			continue
		}
		best, ratio, repeats := c.besideBest(all, true)
		var theirs []string
		if repeats == 0 {
			best, ratio, repeats = c.besideBest(all, false)
			theirs = []string{"too few runs of the semaphore were undisturbed: " + strings.Join(best.Disturbed(), "; ")}
		}
		mine, _, _ := c.share()
		his, _, _ := best.share()
		t.Add(c.setting.name, loadName(c.load), mine, his, fmt.Sprintf("%s at %s", best.Policy, loadName(best.load)), ratio, repeats)
		c.judge(r, ratio, theirs)
	}
	if t.Len() > 0 {
		r.Table = append(r.Table, t)
	}
}

// besideBest returns the setting and load of the semaphore beside which the goodput of c
// is lowest, and in how many repeats. With onlyQuiet, nothing disturbed the semaphore in
// them and they are half of all or more; no repeat if there is no such setting.
func (c *cell) besideBest(all []*cell, onlyQuiet bool) (best *cell, ratio float64, repeats int) {
	ratio = math.NaN() // which reaches no bar
	for _, other := range all {
		if other.setting != c.setting || !byHand(other.Policy) || other.load < 0 {
			continue
		}
		_, disturbed := other.Counted()
		if best == nil {
			best = other
		}
		x, n := c.Beside(&other.Series, goodput)
		if n > 0 && (len(disturbed) == 0 && 2*n >= len(c.Reports) || !onlyQuiet) && (repeats == 0 || x < ratio) {
			best, ratio, repeats = other, x, n
		}
	}
	return best, ratio, repeats
}

// judge states the bars of a cell of Spillgate's. theirs says what disturbed the runs of
// the semaphore that the ratio is of; the other bars compare with nobody.
func (c *cell) judge(r *experiment.Result, ratio float64, theirs []string) {
	where, objective := fmt.Sprintf("%s at %s", c.setting.name, loadName(c.load)), c.setting.objective.Seconds()*1e3
	_, disturbed := c.Counted()
	r.On(experiment.Machine{Ours: disturbed, Theirs: theirs}, func() {
		// Moved from the ratio of the medians of three repeats to the median of the ratios of
		// five: the machine is faster in one repeat than in another, for both alike.
		r.Floor("goodput, "+where, " of the semaphore's best", 0.95, 0.07, ratio)
	})
	r.On(experiment.Machine{Ours: disturbed}, func() {
		r.Ceiling("p99 of served, "+where, " ms", objective, 0.1*objective, c.time(p99).Seconds()*1e3)
		// Without a processor to spare, a refusal waits for the end of the handler in its
		// way, which in 1.8 % of the cases is more than a fifth of the objective off.
		if *c.setting != loneSpin {
			r.Ceiling("refused clients know, p99, "+where, " ms", 0.2*objective, 0.1*objective, c.time(told).Seconds()*1e3)
		}
	})
}
