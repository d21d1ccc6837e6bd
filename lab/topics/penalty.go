package topics

import (
	"context"
	"fmt"
	"math"

	"github.com/spillgate/spillgate/internal/placement"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// penalty is figure 6: what splitting a topic over more brokers costs, and when it is worth it.
func penalty() experiment.Experiment {
	return experiment.Experiment{Name: "srtm/penalty", Title: "What splitting a token bucket over brokers costs",
		About: "A topic of single messages from 1,000 Poisson publishers, 10/s each, then 6,000, split evenly over one to six brokers. The wait for tokens " +
			"is set beside the exact formula. With little load one broker is best; where one is overloaded, two are, and more are worse again.",
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			r := &experiment.Result{Quick: o.Quick}
			chart := &plot.Chart{Title: "p99 by brokers", X: plot.Axis{Label: "brokers"}, Y: plot.Axis{Label: "p99", Unit: "ms"}, Levels: []plot.Level{{Name: "objective", At: 1}}}
			t := &table.Table{Title: "Even splits", Columns: []table.Column{{Name: "publishers"}, {Name: "brokers"}, {Name: "wait for tokens", Format: "%.4f"}, {Name: "exact", Format: "%.4f"},
				{Name: "mean wait", Unit: "µs", Format: "%.1f"}, {Name: "exact mean", Unit: "µs", Format: "%.1f"}, {Name: "p99 wait", Unit: "ms", Format: "%.2f"}, {Name: "exact p99", Unit: "ms", Format: "%.2f"},
				{Name: "median, all", Unit: "ms", Format: "%.3f"}, {Name: "p99, all", Unit: "ms", Format: "%.2f"}}}
			for _, publishers := range []int{1000, 6000} {
				line, err := splits(ctx, o, publishers, r, t)
				if err != nil {
					return nil, err
				}
				chart.Series = append(chart.Series, *line)
			}
			r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
			return r, nil
		}}
}

// splits plays a number of publishers on one to six brokers.
func splits(ctx context.Context, o experiment.Options, publishers int, r *experiment.Result, t *table.Table) (*plot.Series, error) {
	line := &plot.Series{Name: fmt.Sprintf("%d publishers", publishers)}
	load := traffic{publishers: publishers, rate: 10, batch: 1}
	rate := load.total()
	s := setting{traffic: load, nodes: idle(6), bucket: placement.Bucket{Rate: 1.1 * rate, Burst: placement.SmallestBurst(1/1.1, placement.P99)}}
	seconds := lengths(o)
	for k := 1; k <= 6; k++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := s.over(o.Seed, k, maxMinFirst)
		delayed, sum, n := 0.0, 0.0, 0.0
		var access, whole []float32
		exact := s.bucket.Split(1 / float64(k)).Delays(rate / float64(k))
		for w := range windows(o, publishers, exact.Delayed) {
			for _, node := range s.measure(chance(o.Seed, 0x73+uint64(w)<<8), at, seconds) {
				if node == nil {
					continue
				}
				for _, wait := range node.access {
					if sum, n = sum+float64(wait), n+1; wait > 0 {
						delayed++
					}
				}
				if access = append(access, node.access...); w < shownWindows {
					whole = append(whole, node.latencies...)
				}
			}
		}
		p99, mean := quantile(whole, 0.99), sum/n
		wait := quantile(access, 0.99)
		t.Add(publishers, k, delayed/n, exact.Delayed, mean*1e6, exact.Mean*1e6, wait*ms, exact.P99*ms, quantile(whole, 0.5)*ms, p99*ms)
		line.X, line.Y = append(line.X, float64(k)), append(line.Y, min(p99*ms, 50))
		if publishers == 1000 && k > 1 {
			r.Ceiling(fmt.Sprintf("%d: mean off exact", k), "", 0.05, 0.15, max(mean/exact.Mean, exact.Mean/mean)-1)
			r.Ceiling(fmt.Sprintf("%d: p99 off exact", k), "", 0.05, 0.15, max(wait/exact.P99, exact.P99/wait)-1)
		}
	}
	best := 0
	for k := range line.Y {
		if line.Y[k] < line.Y[best] {
			best = k
		}
	}
	want := map[int]float64{1000: 1, 6000: 2}[publishers]
	r.Ceiling(fmt.Sprintf("%d: best brokers", publishers), "", want, 0, float64(best+1))
	r.Floor(fmt.Sprintf("%d: best, at least", publishers), "", want, 0, float64(best+1))
	return line, nil
}

// shownWindows is how many windows the columns of the whole delay are of, which no formula is beside: all would take gigabytes.
const shownWindows = 10

// windows returns how many windows are played where the exact formula is beside and that share of messages waits.
// Waits come in clusters, and the fewer messages wait the fewer clusters there are: the mean of one window of two
// minutes is off by 2.7 % over the square root of that share (standard deviation), 9 % at two brokers. The mean of as
// many windows as this is off by 1.2 %, a quarter of what is allowed, at any number of brokers. One broker is
// not judged; there it would take hundreds.
func windows(o experiment.Options, publishers int, delayed float64) int {
	if o.Quick || publishers > 1000 {
		return 1
	}
	return min(int(math.Ceil(5/delayed)), 60)
}

// maxMinFirst divides evenly over the first k, whatever room they have.
func maxMinFirst(brokers []placement.Broker, rate float64, k int) []float64 {
	out := make([]float64, len(brokers))
	for b := range k {
		out[b] = rate / float64(k)
	}
	return out
}
