package interactive

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func dynamic() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/dynamic",
		Title: "chains that begin at 60 s and end at 130 s: how long the share takes to settle",
		About: `Singles alone, 40 per second at each server of 100 per second. From 60 to 130 s chains come as well, 40 per second
through all four servers. Nobody tells the servers who is who. The share has settled when the weight, the mean over the
servers and seeds, stays within a tenth of what it is in the second half. The paper (figure 5a): latency is long from 60 to
70 s, then it falls; singles recover after 130 s.`,
		Run: runDynamic,
	}
}

const (
	begins, ends, stops = 60 * time.Second, 130 * time.Second, 190 * time.Second
	second              = time.Second
)

func runDynamic(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds := 48
	if o.Quick {
		seeds = 24
	}
	s := oracle(40, 40)
	s.name, s.from, s.to = "40, 40", begins, ends
	by := []order{fifo(), static(), ours()}
	var cells []cell
	for _, b := range by {
		for k := range seeds {
			w := s.world(o.Seed+uint64(k), b, 0, stops)
			w.Bin = second
			cells = append(cells, cell{fmt.Sprintf("%s, seed %d", b.name, o.Seed+uint64(k)), w})
		}
	}
	reports, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	span := []plot.Span{{Name: "chains", From: begins.Seconds(), To: ends.Seconds()}}
	x := plot.Axis{Label: "time", Unit: "s"}
	chains := &plot.Chart{Title: "Chains, mean latency", X: x, Y: plot.Axis{Label: "latency", Unit: "ms"}, Spans: span}
	singles := &plot.Chart{Title: "Singles, mean latency", X: x, Y: plot.Axis{Label: "latency", Unit: "ms"}, Spans: span}
	phases := []struct {
		name     string
		from, to time.Duration
	}{{"singles alone", 20 * second, begins}, {"first 10 s of chains", begins, begins + 10*second}, {"from 70 s on", begins + 10*second, ends},
		{"first 10 s after", ends, ends + 10*second}, {"afterwards", ends + 10*second, stops}}
	t := &table.Table{Title: "Mean latencies", Columns: []table.Column{{Name: "phase"}, {Name: "order"}, {Name: "chains", Unit: "ms", Format: "%.1f"}, {Name: "singles", Unit: "ms", Format: "%.1f"}}}
	means := make([][]outcome, len(phases))
	for p := range phases {
		means[p] = make([]outcome, len(by))
	}
	for k := range by {
		mine := reports[k*seeds : (k+1)*seeds]
		a, b := plot.Series{Name: by[k].name, Dashed: k == 0}, plot.Series{Name: by[k].name, Dashed: k == 0}
		for at := time.Duration(0); at < stops; at += 2 * second {
			out := between(mine, at, at+2*second)
			a.X, a.Y = append(a.X, at.Seconds()+1), append(a.Y, or(out.chains.served > 0, out.chains.mean()))
			b.X, b.Y = append(b.X, at.Seconds()+1), append(b.Y, or(out.singles.served > 0, out.singles.mean()))
		}
		chains.Series, singles.Series = append(chains.Series, a), append(singles.Series, b)
		for p, phase := range phases {
			means[p][k] = between(mine, phase.from, phase.to)
		}
	}
	for p, phase := range phases {
		for k := range by {
			out := &means[p][k]
			var c any
			if out.chains.served > 0 {
				c = out.chains.mean()
			}
			t.Add(phase.name, by[k].name, c, out.singles.mean())
		}
	}

	weights := weightOverTime(reports[2*seeds:], stops)
	line := plot.Series{Name: "share"}
	for i, w := range weights {
		line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, w)
	}
	chart := &plot.Chart{Title: "Weight of the chains, mean over servers and seeds", X: x, Y: plot.Axis{Label: "weight", Max: 1}, Series: []plot.Series{line}, Spans: span}
	start, settled, over, final := Settling(weights, int(begins/second), int(ends/second))
	t.Note = fmt.Sprintf("The weight goes from %.3f to %.3f. Means over %d seeds.", start, final, seeds)
	r.Ceiling("settled after chains began", " s", 10, 0, settled)
	r.Ceiling("overshoot", " %", 10, 0, 100*over)
	v := s.judge(&means[2][0], &means[2][2])
	r.Ceiling("singles lose from 70 s on", " %", 100*delta, 4, 100*v.harm)
	r.Floor("chains gain from 70 s on", " % (the law allows 25)", 20, 2, 100*v.gain)
	r.Ceiling("singles beyond the law's least from 70 s on", " %", 3, 1.5, 100*v.beyond)
	both := 0.0
	for _, p := range means[1:3] {
		v := s.judge(&p[0], &p[2])
		both = max(both, min(1-v.gain, 1+v.harm))
	}
	r.Ceiling("the better-off class, first 10 s and from then on", " of FIFO", 1, 0.01, both)
	r.Ceiling("singles 10 s after the chains' end", " of FIFO's", 1.05, 0.02, means[4][2].singles.mean()/means[4][0].singles.mean())
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart, chains, singles}
	return r, nil
}

// or returns x, or what is drawn as a gap.
func or(ok bool, x float64) float64 {
	if !ok {
		return math.NaN()
	}
	return x
}

// between is what reports say of a part of the time.
func between(reports []*mesh.Report, from, to time.Duration) (out outcome) {
	for _, r := range reports {
		a, b := r.Between(from, to, 0, 1, 2, 3), r.Between(from, to, 4, 5, 6, 7)
		out.chains.latency.Merge(&a.Latency)
		out.singles.latency.Merge(&b.Latency)
		out.chains.served += a.Good + a.Late
		out.singles.served += b.Good + b.Late
	}
	return out
}

// weightOverTime is the mean weight at the end of each second.
func weightOverTime(reports []*mesh.Report, length time.Duration) []float64 {
	sums := make([]float64, length/second)
	n := 0.0
	for _, r := range reports {
		for _, p := range r.Shares {
			n++
			k, weight := 0, p.Decisions[0].Weight
			for i := range sums {
				for ; k < len(p.At) && p.At[k] <= time.Duration(i+1)*second; k++ {
					weight = p.Decisions[k].Weight
				}
				sums[i] += weight
			}
		}
	}
	for i := range sums {
		sums[i] /= n
	}
	return sums
}

// Settling returns where a weight starts, after how many seconds it stays within a
// tenth of its final value, how far it goes past that, and that. A step that is
// smaller than a tenth has settled at once. weights are a second apart, the step is
// at from, and the final value is the mean of the second half until to.
func Settling(weights []float64, from, to int) (start, settled, over, final float64) {
	start = weights[from-1]
	half := weights[(from+to)/2 : to]
	for _, w := range half {
		final += w / float64(len(half))
	}
	sign := 1.0
	if final < start {
		sign = -1
	}
	for i, w := range weights[from:to] {
		if math.Abs(w/final-1) > 0.1 {
			settled = float64(i + 1)
		}
		over = max(over, sign*(w/final-1))
	}
	return start, settled, over, final
}
