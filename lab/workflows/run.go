package workflows

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/lab/experiment"
)

// cell is one simulated world of an experiment.
type cell struct {
	name  string
	world mesh.Config
	// looks are instants from the start, ascending, at which the report is taken.
	looks []time.Duration
	// cost orders the cells: dearer ones start first. Any unit.
	cost float64
}

// outcome is what became of a cell.
type outcome struct {
	*mesh.Report
	// at is the report at each look. Its histograms are those of the end.
	at []*mesh.Report
}

func runCells(ctx context.Context, o experiment.Options, cells []cell) ([]outcome, error) {
	return experiment.Each(ctx, o, cells, func(c *cell) (string, float64) { return c.name, c.cost }, runCell)
}

func runCell(ctx context.Context, c *cell) (out outcome, err error) {
	w, err := mesh.New(c.world)
	if err != nil {
		return out, err
	}
	look := func() error {
		r, err := w.Report()
		if err != nil {
			return err
		}
		copied := *r
		out.at = append(out.at, &copied)
		return nil
	}
	for n := 0; w.Step(); n++ {
		if n%100_000 == 0 && ctx.Err() != nil {
			return out, ctx.Err()
		}
		for len(out.at) < len(c.looks) && w.Since() >= c.looks[len(out.at)] {
			if err := look(); err != nil {
				return out, err
			}
		}
	}
	for len(out.at) < len(c.looks) {
		if err := look(); err != nil {
			return out, err
		}
	}
	out.Report, err = w.Report()
	return out, err
}

// sheds returns what the processes of a service refused.
func sheds(s *mesh.ServiceCount) float64 {
	n := 0
	for _, k := range s.Sheds {
		n += k
	}
	return float64(n)
}

// seeds returns the seeds of an experiment whose bars are of the worst of several
// runs.
func seeds(o experiment.Options, full, quick int) []uint64 {
	n := full
	if o.Quick {
		n = quick
	}
	s := make([]uint64, n)
	for i := range s {
		s[i] = o.Seed + uint64(i)
	}
	return s
}

// per returns a ÷ b, 0 if b is 0.
func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return per(sum, float64(len(x)))
}

// spread returns the standard deviation of x ÷ its mean.
func spread(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return per(math.Sqrt(per(sum, float64(len(x)))), m)
}

// rateOf returns, per bin, the rates of a workflow summed over the processes of a
// service. A bin in which one of them had no limit is not a number.
func rateOf(r *mesh.Report, service string, workflow int) []float64 {
	var sum []float64
	for _, p := range r.Rates {
		if p.Service != service {
			continue
		}
		if sum == nil {
			sum = make([]float64, len(p.Rate))
		}
		for i, now := range p.Rate {
			if sum[i] += now[workflow]; now[workflow] >= rates.NoLimit {
				sum[i] = math.NaN()
			}
		}
	}
	return sum
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const ms = time.Millisecond

// worst collects the worst of a figure over the seeds.
type worst struct {
	value float64
	any   bool
}

func (w *worst) high(v float64) {
	if !w.any || v > w.value || math.IsNaN(v) {
		w.value, w.any = v, true
	}
}

func (w *worst) low(v float64) {
	if !w.any || v < w.value || math.IsNaN(v) {
		w.value, w.any = v, true
	}
}

func (w *worst) get() float64 {
	if !w.any {
		return math.NaN()
	}
	return w.value
}

func named(control mesh.Control, seed uint64, rest string) string {
	return fmt.Sprintf("%s, %s, seed %d", control.Name, rest, seed)
}

// middle returns the median of x, the upper one of two.
func middle(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return s[len(s)/2]
}
