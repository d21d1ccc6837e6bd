package interactive

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func overall() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/overall",
		Title: "chains gain what the law allows and singles lose no more than a quarter, over loads and the paper's two sizes",
		About: `Four servers, nine clients at each: chains that visit all servers beside requests for one. First the paper's small
and large requests on two cores, with service times for which FIFO gives the paper's means; then nine loads of servers with
one core; then clients who give up. Orders: one queue, static shares (the paper's adjustment taken literally), strict
priority, a lottery of a fixed weight, and share, which learns who is who and moves the weights. Where harm of a
quarter to singles pays for it, chains must gain 35 %.`,
		Run: runOverall,
	}
}

// sizes are the paper's two, and its four means before and after, in ms. Its
// service times are not published. Those here split FIFO's means into service and
// waiting; every client sends chains and singles alike.
func sizes() []setting {
	const ms = time.Millisecond
	return []setting{
		{name: "100 to 200 KB", cores: 2, chains: 2 * smallRate, singles: smallRate / 2, chain: 6 * ms, single: smallSingle, network: 100 * time.Microsecond},
		{name: "200 KB and more", cores: 2, chains: 2 * largeRate, singles: largeRate / 2, chain: 8 * ms, single: largeSingle, network: 100 * time.Microsecond},
	}
}

// What nine clients send to one server, per second, and the service time of their
// singles: found by trying until FIFO gave the paper's means.
const (
	smallRate   = 43.0
	largeRate   = 29.0
	smallSingle = 38500 * time.Microsecond
	largeSingle = 53 * time.Millisecond
)

// published are the paper's means in ms (figure 4): FIFO's and D3G's.
var published = [2][2][2]float64{{{110, 60}, {95, 75}}, {{120, 75}, {80, 75}}}

// loads are chains and singles per second at servers of 100/s.
func loads(quick bool) []setting {
	rates := [][2]float64{{20, 60}, {30, 50}, {40, 40}, {60, 20}, {25, 50}, {30, 45}, {32, 47}, {20, 50}, {30, 30}}
	if quick {
		rates = rates[:4]
	}
	var out []setting
	for _, x := range rates {
		s := oracle(x[0], x[1])
		s.name = fmt.Sprintf("%v, %v", x[0], x[1])
		out = append(out, s)
	}
	return out
}

// impatient are loads with clients who give up.
func impatient() []setting {
	var out []setting
	for _, x := range []struct {
		chains, singles float64
		chain, single   time.Duration
	}{{40, 45, 2 * time.Second, 200 * time.Millisecond}, {40, 45, time.Second, 500 * time.Millisecond}, {60, 60, 2 * time.Second, 250 * time.Millisecond}} {
		s := oracle(x.chains, x.singles)
		s.chainPatience, s.singlePatience = x.chain, x.single
		s.name = fmt.Sprintf("%v for %v, %v for %v", x.chains, x.chain, x.singles, x.single)
		out = append(out, s)
	}
	return out
}

func runOverall(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds, length := 6, 2060*time.Second
	if o.Quick {
		seeds, length = 3, 760*time.Second
	}
	const warmup = 60 * time.Second
	by := orders()
	a, b, c := sizes(), loads(o.Quick), impatient()
	out, err := compare(ctx, o, append(append(append([]setting{}, a...), b...), c...), by, seeds, warmup, length)
	if err != nil {
		return nil, err
	}
	ofA, ofB, ofC := out[:len(a)], out[len(a):len(a)+len(b)], out[len(a)+len(b):]
	r := &experiment.Result{Quick: o.Quick}
	var sized, all worst
	paper, bars := paperSizes(r, &sized, a, by, ofA)
	many := manyLoads(r, &all, b, by, ofB)
	sized.bars(r, "the paper's sizes")
	all.bars(r, "one core")
	r.Table = []*table.Table{paper, many, givenUp(r, c, by, ofC)}
	r.Chart = []*plot.Chart{bars}
	calls, wrong := 0, 0
	for i := range out {
		calls, wrong = calls+out[i][len(by)-1].calls, wrong+out[i][len(by)-1].wrong
	}
	r.Notes = append(r.Notes, fmt.Sprintf("Told nothing, the servers took %d of %d calls for what they are not, %.1f a server and run.",
		wrong, calls, float64(wrong)/float64(hops*seeds*len(out))))
	return r, nil
}

// paperSizes shows the paper's two settings beside its figures. out is by setting and order.
func paperSizes(r *experiment.Result, sized *worst, a []setting, by []order, out [][]outcome) (*table.Table, *plot.Chart) {
	paper := orderTable("The paper's two sizes: 36 clients, four servers of two cores")
	paper.Note = "The published rows are figure 4's means. The law is exact for one core only; with two it is off by how unlike the service times are."
	bars := &plot.Chart{Title: "The paper's two sizes", Y: plot.Axis{Label: "mean latency", Unit: "ms"}}
	for _, class := range []string{"chains", "singles"} {
		bars.Series = append(bars.Series, plot.Series{Name: class})
	}
	bar := func(name string, chains, singles float64) {
		bars.Categories = append(bars.Categories, name)
		bars.Series[0].Y, bars.Series[1].Y = append(bars.Series[0].Y, chains), append(bars.Series[1].Y, singles)
	}
	for i := range a {
		s := &a[i]
		for k := range by {
			s.row(paper, by[k], &out[i][0], &out[i][k])
			bar(fmt.Sprintf("%s, %s", []string{"small", "large"}[i], by[k].name), out[i][k].chains.mean(), out[i][k].singles.mean())
		}
		was, is := published[i][0], published[i][1]
		for k, row := range []string{"published, before", "published, D3G"} {
			v := published[i][k]
			paper.Add(s.name, table.Cell{Value: row, Mark: table.Faint}, v[0], nil, v[1], nil, 100*(1-v[0]/was[0]), 100*(v[1]/was[1]-1))
		}
		sized.see(s, out[i])
		v := s.judge(&out[i][0], &out[i][len(by)-1])
		r.Floor(fmt.Sprintf("chains gain at %s, the paper's gain", s.name), " %", 100*(1-is[0]/was[0]), 2, 100*v.gain)
	}
	return paper, bars
}

// manyLoads shows loads at servers of one core, where the law is exact.
func manyLoads(r *experiment.Result, all *worst, b []setting, by []order, out [][]outcome) *table.Table {
	t := orderTable("Nine loads at servers of one core, 100/s", table.Column{Name: "allowed gain", Unit: "%", Format: "%.1f"})
	if r.Quick {
		t.Title = "Four loads at servers of one core, 100/s"
	}
	t.Note = "Load: chains and singles per second at each server. Allowed: what harm of 25 % to singles pays for, or what priority reaches."
	for i := range b {
		got := out[i]
		for k := range by {
			var more []any
			if k == len(by)-1 {
				more = []any{100 * b[i].allowed(&got[0], &got[2])}
			}
			b[i].row(t, by[k], &got[0], &got[k], more...)
		}
		all.see(&b[i], got)
	}
	return t
}

// givenUp shows callers who give up, and judges how many.
func givenUp(r *experiment.Result, c []setting, by []order, out [][]outcome) *table.Table {
	lost := &table.Table{Title: "Clients who give up after an exponential time", Columns: []table.Column{{Name: "chains and singles per second, patience"}, {Name: "order"},
		{Name: "chains", Unit: "ms", Format: "%.1f"}, {Name: "singles", Unit: "ms", Format: "%.1f"},
		{Name: "chains lost", Unit: "%", Format: "%.2f"}, {Name: "singles lost", Unit: "%", Format: "%.2f"}}}
	most, both := 0.0, 0.0
	for i := range c {
		got := out[i]
		for k := range by {
			lost.Add(c[i].name, by[k].name, got[k].chains.mean(), got[k].singles.mean(), 100*got[k].chains.lost(), 100*got[k].singles.lost())
		}
		first, last := &got[0], &got[len(by)-1]
		most = max(most, last.singles.lost()-first.singles.lost())
		both = max(both, min(last.chains.lost()/first.chains.lost(), last.singles.lost()/first.singles.lost()))
	}
	lost.Note = "Means are of those who were served. Lost: who gave up, of all."
	r.Ceiling("singles that give up beyond FIFO's, worst load", " %", 1, 0.3, 100*most)
	r.Ceiling("clients who give up: the better-off class, how many do, worst", " of FIFO", 1, 0.01, both)
	return lost
}
