package interactive

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

// cell is one run: an order in a setting on a seed.
type cell struct {
	name  string
	world mesh.Config
}

func runCells(ctx context.Context, o experiment.Options, cells []cell) ([]*mesh.Report, error) {
	cost := func(c *cell) (string, float64) {
		sum := 0.0
		for i := range c.world.Groups {
			for _, step := range c.world.Groups[i].Load.Steps {
				sum += step.Rate
			}
		}
		return c.name, sum * c.world.Length.Seconds()
	}
	return experiment.Each(ctx, o, cells, cost, func(ctx context.Context, c *cell) (*mesh.Report, error) {
		w, err := mesh.New(c.world)
		if err != nil {
			return nil, err
		}
		for n := 0; w.Step(); n++ {
			if n%100_000 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		return w.Report()
	})
}

// class is what became of the requests of one class, over all seeds.
type class struct {
	latency         sim.Histogram
	offered, gaveUp int
	served          int
}

func (c *class) mean() float64 { return c.latency.Mean().Seconds() * 1e3 }
func (c *class) p95() float64  { return c.latency.Quantile(0.95).Seconds() * 1e3 }
func (c *class) lost() float64 { return float64(c.gaveUp) / math.Max(float64(c.offered), 1) }

// outcome is what became of both, and the time that is of.
type outcome struct {
	chains, singles class
	seconds         float64
	// calls at servers, and those that a server took for what they are not, from the
	// start; of an order that learns.
	calls, wrong int
}

func (out *outcome) add(r *mesh.Report) {
	for i := range r.Workflows {
		c, n := &out.chains, &r.Workflows[i]
		if i >= hops {
			c = &out.singles
		}
		c.latency.Merge(&n.Latency)
		c.offered, c.gaveUp, c.served = c.offered+n.Offered, c.gaveUp+n.GaveUp, c.served+n.Good+n.Late
	}
	for _, p := range r.Shares {
		for f, n := range p.Calls {
			out.calls += n[work.Default] + n[work.Interactive]
			if f < hops {
				out.wrong += n[work.Default]
			} else {
				out.wrong += n[work.Interactive]
			}
		}
	}
	out.seconds += r.Seconds
}

// compare runs every order in every setting on every seed; out[i][k] is of
// settings[i] and orders[k].
func compare(ctx context.Context, o experiment.Options, settings []setting, orders []order, seeds int, warmup, length time.Duration) ([][]outcome, error) {
	var cells []cell
	for i := range settings {
		for _, by := range orders {
			for k := range seeds {
				cells = append(cells, cell{fmt.Sprintf("%s, %s, seed %d", settings[i].name, by.name, o.Seed+uint64(k)), settings[i].world(o.Seed+uint64(k), by, warmup, length)})
			}
		}
	}
	reports, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	out := make([][]outcome, len(settings))
	for i := range out {
		out[i] = make([]outcome, len(orders))
		for k := range out[i] {
			for range seeds {
				out[i][k].add(reports[0])
				reports = reports[1:]
			}
		}
	}
	return out, nil
}

// exchange is how many milliseconds singles lose for each that chains gain over
// all hops: the conservation law (Kleinrock). The waits weighted by the work that
// they are for add up to the same whatever the order, as long as no core is idle
// with work at hand. It is exact for one core, and for more where all service
// times are alike.
func (s *setting) exchange(fifo *outcome) float64 {
	work := func(c *class, mean time.Duration) float64 { return float64(c.served) * mean.Seconds() }
	return work(&fifo.chains, hops*s.chain) / work(&fifo.singles, s.single) / hops
}

// verdict is an order compared with FIFO on the same requests.
type verdict struct {
	gain, harm float64 // of FIFO's means
	// beyond is how far the singles' mean is above the least that the law asks for
	// the gain, as a share of that.
	beyond float64
}

func (s *setting) judge(fifo, got *outcome) verdict {
	least := fifo.singles.mean() + s.exchange(fifo)*(fifo.chains.mean()-got.chains.mean())
	return verdict{1 - got.chains.mean()/fifo.chains.mean(), got.singles.mean()/fifo.singles.mean() - 1, got.singles.mean()/least - 1}
}

// delta is how much harm is allowed, of FIFO's mean: the default of share.
const delta = 0.25

// wanted is the gain that is asked for where the law allows it.
const wanted = 0.35

// allowed is the largest gain that harm up to delta pays for, and that priority
// reaches.
func (s *setting) allowed(fifo, priority *outcome) float64 {
	paid := delta * fifo.singles.mean() / s.exchange(fifo) / fifo.chains.mean()
	return min(paid, s.judge(fifo, priority).gain)
}

// worst collects the bars that hold for every load.
type worst struct {
	gain, harm, beyond, both float64
	loads, allowing          int
}

// see takes ours in a setting. out is in the order of orders().
func (x *worst) see(s *setting, out []outcome) {
	v := s.judge(&out[0], &out[len(out)-1])
	if s.allowed(&out[0], &out[2]) >= wanted {
		if x.allowing == 0 || v.gain < x.gain {
			x.gain = v.gain
		}
		x.allowing++
	}
	if x.loads == 0 {
		x.harm, x.beyond = v.harm, v.beyond
	}
	x.loads++
	x.harm = max(x.harm, v.harm)
	x.beyond = max(x.beyond, v.beyond)
	x.both = max(x.both, min(1-v.gain, 1+v.harm))
}

// bars states them; of says what the loads are.
func (x *worst) bars(r *experiment.Result, of string) {
	if x.allowing > 0 {
		r.Floor(fmt.Sprintf("%s: chains gain where the law allows 35 %%, worst of %d", of, x.allowing), " %", 100*wanted, 2, 100*x.gain)
	}
	r.Ceiling(of+": singles lose, worst", " %", 100*delta, 3, 100*x.harm)
	r.Ceiling(of+": singles beyond the law's least, worst", " %", 3, 1.5, 100*x.beyond)
	r.Ceiling(of+": the better-off class, worst", " of FIFO", 1, 0.01, x.both)
}

// orderTable begins a table of orders.
func orderTable(title string, more ...table.Column) *table.Table {
	return &table.Table{Title: title, Columns: append([]table.Column{{Name: "load"}, {Name: "order"},
		{Name: "chains", Unit: "ms", Format: "%.1f"}, {Name: "p95", Unit: "ms", Format: "%.0f"},
		{Name: "singles", Unit: "ms", Format: "%.1f"}, {Name: "p95", Unit: "ms", Format: "%.0f"},
		{Name: "chains gain", Unit: "%", Format: "%.1f"}, {Name: "singles lose", Unit: "%", Format: "%.1f"},
		{Name: "beyond the law", Unit: "%", Format: "%.1f"}}, more...)}
}

// row adds an order to a table.
func (s *setting) row(t *table.Table, by order, fifo, got *outcome, more ...any) {
	v := s.judge(fifo, got)
	t.Add(append([]any{s.name, by.name, got.chains.mean(), got.chains.p95(), got.singles.mean(), got.singles.p95(), 100 * v.gain, 100 * v.harm, 100 * v.beyond}, more...)...)
}
