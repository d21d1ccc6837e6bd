package interactive

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func scale() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/scale",
		Title: "50 to 500 clients",
		About: `The paper's small requests on four servers of two cores, half of them chains. First every client sends at a rate of
its own, so that 500 take 85 % of the servers, and orders meet the same requests. Then every client waits for its answer and
thinks: whom an order serves sooner asks for more, and the same number of clients is another load. The paper (figure 5b):
with D3G, 80 ms for chains and 65 ms for singles at 50 concurrent requests, 170 and 150 ms at 500.`,
		Run: runScale,
	}
}

// perClient is how many requests a client sends per second, half of them chains:
// 500 then take 85 % of four servers with two cores.
const perClient = 0.436

// thinking is the mean time that a client thinks in a closed loop.
const thinking = 2200 * time.Millisecond

func runScale(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	counts := []int{50, 100, 200, 300, 400, 500}
	seeds, length := 8, 2060*time.Second
	if o.Quick {
		counts, seeds, length = []int{50, 200, 400, 500}, 3, 860*time.Second
	}
	var settings []setting
	for _, closed := range []bool{false, true} {
		for _, n := range counts {
			s := sizes()[0]
			s.name, s.chains, s.singles = fmt.Sprint(n), float64(n)/2*perClient, float64(n)/2*perClient/hops
			if closed {
				s.users, s.think = n, thinking
			}
			settings = append(settings, s)
		}
	}
	by := orders()
	out, err := compare(ctx, o, settings, by, seeds, 60*time.Second, length)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	allowed := table.Column{Name: "allowed gain", Unit: "%", Format: "%.1f"}
	open := orderTable("Clients that send at a rate", allowed, table.Column{Name: "published: chains", Unit: "ms"}, table.Column{Name: "singles", Unit: "ms"})
	open.Note = "Load: clients. The published figures are of other servers; what compares is that they grow and do not part."
	closed := &table.Table{Title: "Clients that wait and think", Columns: []table.Column{{Name: "clients"}, {Name: "order"},
		{Name: "chains", Unit: "ms", Format: "%.1f"}, {Name: "singles", Unit: "ms", Format: "%.1f"},
		{Name: "chains", Unit: "/s", Format: "%.1f"}, {Name: "singles", Unit: "/s", Format: "%.1f"}}}
	charts := []*plot.Chart{
		{Title: "Chains, clients that send at a rate", X: plot.Axis{Label: "clients"}, Y: plot.Axis{Label: "mean latency", Unit: "ms"}},
		{Title: "Singles, clients that send at a rate", X: plot.Axis{Label: "clients"}, Y: plot.Axis{Label: "mean latency", Unit: "ms"}},
	}
	for k := range by {
		a, b := plot.Series{Name: by[k].name, Dashed: k == 0}, plot.Series{Name: by[k].name, Dashed: k == 0}
		for i, n := range counts {
			a.X, a.Y = append(a.X, float64(n)), append(a.Y, out[i][k].chains.mean())
			b.X, b.Y = append(b.X, float64(n)), append(b.Y, out[i][k].singles.mean())
		}
		charts[0].Series, charts[1].Series = append(charts[0].Series, a), append(charts[1].Series, b)
	}
	var w worst
	both := 0.0
	for i := range settings {
		s := &settings[i]
		if s.users > 0 {
			for k := range by {
				got := &out[i][k]
				closed.Add(s.name, by[k].name, got.chains.mean(), got.singles.mean(), float64(got.chains.served)/got.seconds, float64(got.singles.served)/got.seconds)
			}
			v := s.judge(&out[i][0], &out[i][len(by)-1])
			both = max(both, min(1-v.gain, 1+v.harm))
			continue
		}
		for k := range by {
			var more []any
			if k == len(by)-1 {
				more = []any{100 * s.allowed(&out[i][0], &out[i][2])}
				switch counts[i] {
				case 50:
					more = append(more, 80, 65)
				case 500:
					more = append(more, 170, 150)
				}
			}
			s.row(open, by[k], &out[i][0], &out[i][k], more...)
		}
		w.see(s, out[i])
	}
	w.bars(r, "50 to 500 clients")
	r.Ceiling("clients that wait and think: the better-off class, worst", " of FIFO", 1, 0.01, both)
	r.Table, r.Chart = []*table.Table{open, closed}, charts
	return r, nil
}
