package breakwater

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func spike() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/spike",
		Title: "time to converge after demand jumps from 0.7 to 1.4 times the capacity",
		About: `1,000 clients send at 0.7 times the capacity, then at 1.4 times, then at 0.7 times again. Converged is
the time from the jump until the goodput, averaged over 5 ms, is at least 95 % of what the policy reaches
in the second half of the spike and stays above 90 % for the 50 ms that follow. The paper (§5.3): Breakwater
below 20 ms, DAGOR 500 ms, SEDA 1.58 s.`,
		Run: runSpike,
	}
}

// bin is the resolution of the spike's time lines.
const bin = time.Millisecond

func runSpike(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	// The jump finds every policy at its level: all have the warm-up that the slowest needs.
	up, jumped, rest := 100*time.Millisecond+slowStart, 4*time.Second, 500*time.Millisecond
	if o.Quick {
		jumped, rest = 2*time.Second, 200*time.Millisecond
	}
	down := up + jumped
	length := down + rest
	s := setting()
	published := map[string]string{contenders.Name: "< 20 ms", "dagor": "500 ms", "seda": "1.58 s"}
	policies := []mesh.Control{contenders.Spillgate(s), contenders.DAGOR(s), contenders.SEDA(s), contenders.Protego(s), contenders.FIFO(s)}
	var cells []experiment.Cell
	for _, p := range policies {
		c := testbed(o.Seed, p, worlds.Exponential, clients, 1, 0, length)
		c.Name, c.Bin, c.World.Warmup, c.World.Length = p.Name, bin, 0, length // up already leaves time for cold starts
		c.World.Clients[0].Load.Steps = []world.Rate{{}, {At: connected, Times: 0.7}, {At: up, Times: 1.4}, {At: down, Times: 0.7}}
		cells = append(cells, c)
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "A demand spike of 1.4 times the capacity", Columns: []table.Column{{Name: "policy"},
		{Name: "converged", Unit: "ms"}, {Name: "published"}, {Name: "goodput first 20 ms", Unit: "of capacity", Format: "%.3f"},
		{Name: "goodput in the spike", Unit: "of capacity", Format: "%.3f"}, {Name: "p99 first 20 ms", Unit: "µs"}, {Name: "p99 in the spike", Unit: "µs"},
		{Name: "goodput 20 ms after", Unit: "of offered", Format: "%.3f"}}}
	goodput := &plot.Chart{Title: "Goodput around the spike", X: plot.Axis{Label: "time since the jump", Unit: "ms"}, Y: plot.Axis{Label: "goodput", Unit: "of capacity"}}
	tail := &plot.Chart{Title: "p99 response time around the spike", X: plot.Axis{Label: "time since the jump", Unit: "ms"}, Y: plot.Axis{Label: "p99", Unit: "µs", Log: true},
		Levels: []plot.Level{{Name: "SLO 200 µs", At: microseconds(objective)}}}
	for i, p := range policies {
		rep := reports[i]
		converged := convergence(rep, up, down)
		first, all, after := rep.Between(up, up+20*bin), rep.Between(up+20*bin, down), rep.Between(down+20*bin, length)
		share := func(c *mesh.Count, d time.Duration) float64 { return float64(c.Good) / d.Seconds() / capacity() }
		var ms any = "never"
		if converged >= 0 {
			ms = converged.Seconds() * 1e3
		}
		spiked := share(&all, down-up-20*bin)
		t.Add(p.Name, ms, published[p.Name], share(&first, 20*bin), spiked, microseconds(first.Latency.Quantile(0.99)),
			microseconds(all.Latency.Quantile(0.99)), float64(after.Good)/float64(after.Offered))
		g, l := plot.Series{Name: p.Name}, plot.Series{Name: p.Name}
		for k := range rep.Bins {
			at := (time.Duration(k)*bin - up).Seconds() * 1e3
			g.X, g.Y = append(g.X, at), append(g.Y, share(&rep.Bins[k][0], bin))
			l.X, l.Y = append(l.X, at), append(l.Y, microseconds(rep.Bins[k][0].Latency.Quantile(0.99)))
		}
		goodput.Series, tail.Series = append(goodput.Series, g), append(tail.Series, l)
		if i == 0 {
			back := converged.Seconds() * 1e3
			if converged < 0 {
				back = length.Seconds() * 1e3
			}
			r.Ceiling("converged after the jump", " ms", 20, 0, back)
			r.Floor("goodput in the spike, from 20 ms on", " of capacity", 0.97, 0.01, spiked)
			r.Ceiling("p99 in the spike, from 20 ms on", " µs", microseconds(objective), 0, microseconds(all.Latency.Quantile(0.99)))
			r.Floor("goodput after the spike, from 20 ms on", " of offered", 0.99, 0.005, float64(after.Good)/float64(after.Offered))
		}
	}
	t.Note = fmt.Sprintf("DAGOR and SEDA as Breakwater's authors wrote and tuned them. The spike lasts %v.", down-up)
	r.Table = []*table.Table{t}
	r.Chart = []*plot.Chart{goodput, tail}
	return r, nil
}

// convergence is the time from the jump to the first instant at which the
// goodput has come to its level of the spike and stays there, negative if none.
func convergence(rep *experiment.Played, up, down time.Duration) time.Duration {
	const window, stay = 5, 50
	half := rep.Between((up+down)/2, down)
	level := float64(half.Good) / float64((down-up)/2/bin)
	from, to := int(up/bin), int(down/bin)
	average := func(k int) float64 {
		sum := 0
		for i := k; i < k+window; i++ {
			sum += rep.Bins[i][0].Good
		}
		return float64(sum) / window
	}
	for k := from; k <= to-window-stay; k++ {
		if average(k) < 0.95*level {
			continue
		}
		stays := true
		for j := k; j < k+stay && stays; j++ {
			stays = average(j) >= 0.9*level
		}
		if stays {
			return time.Duration(k-from+window) * bin
		}
	}
	return -1
}
