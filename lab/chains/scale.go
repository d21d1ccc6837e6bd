package chains

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func scaleLive() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/scale-live",
		Title: "50 to 500 clients of four Go services, with FIFO beside share",
		About: `Every client sends at a rate of its own, one chain through all servers for each twelve requests to one server, so that
500 take 85 % of the servers. FIFO and share run at the same time, all numbers of clients beside each other, with the same
arrivals. Then 500 clients who give up: chains after 2 s, singles after 250 ms, exponentially. The law allows what harm of a
quarter to singles pays for, or what priority reaches. The paper (figure 5b), of other servers: with D3G 80 ms for chains and
65 ms for singles at 50 concurrent requests, 170 and 150 ms at 500.`,
		Live: true,
		Run:  runScaleLive,
	}
}

const (
	// mostClients are those that take 85 % of the servers.
	mostClients, mostClientsLoad = 500, 0.85
	// chainsOfWork is the part of that which is the chains': a quarter, as in
	// overall-live.
	chainsOfWork = 0.25
	// allowedHarm is share's limit by default, of FIFO's mean, and wantedGain what is
	// asked for where that pays for it.
	allowedHarm, wantedGain = 0.25, 0.35
)

// crowd is a number of clients, who may be such as give up.
type crowd struct {
	clients   int
	impatient bool
}

func (c crowd) name() string {
	if c.impatient {
		return fmt.Sprintf("%d who give up", c.clients)
	}
	return fmt.Sprint(c.clients)
}

// rates are chains and singles per second to all servers together.
func (c crowd) rates(s setting) (chains, singles float64) {
	visits := mostClientsLoad * s.capacity() * float64(c.clients) / mostClients
	return chainsOfWork * visits, (1 - chainsOfWork) * visits * servers
}

// allowed is the largest gain of chains, in theory, that harm of a quarter to
// singles pays for and priority reaches.
func (c crowd) allowed(s setting) float64 {
	l := s.model(c.rates(s))
	fifo, _ := l.FIFO()
	first, _ := l.Priority()
	paid := allowedHarm * fifo.Default * l.Default / (l.Interactive * fifo.Interactive / float64(l.Hops))
	return min(paid, 1-first.Interactive/fifo.Interactive)
}

func (c crowd) world(s setting, length, from time.Duration) *world.World {
	ofChains, ofSingles := c.rates(s)
	w := s.world(c.name(), from, length, steadily(ofChains), steadily(ofSingles))
	if c.impatient {
		w.Clients[chains].GiveUp, w.Clients[singles].GiveUp = 200*s.mean, 25*s.mean
	}
	return w
}

func runScaleLive(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	s := setting{workers: 1, mean: steady, answer: oneKB}
	// What runs at the same time is as much as two processors do with ease.
	batches := [][]crowd{{{50, false}, {100, false}, {400, false}, {500, true}}, {{200, false}, {300, false}, {500, false}}}
	seeds, length, from := 2, 100*time.Second, 20*time.Second
	if o.Quick {
		batches = [][]crowd{{{50, false}, {300, false}, {500, false}, {500, true}}}
		seeds, length, from = 1, 34*time.Second, 12*time.Second
	}
	r, again := &experiment.Result{Quick: o.Quick}, retakes(o, 0, 2)
	got := map[crowd][2][]*bed.Played{}
	for i := range seeds * len(batches) {
		crowds, seed := batches[i%len(batches)], o.Seed*100+uint64(i/len(batches))
		o.Step(i, seeds*len(batches), fmt.Sprintf("%d runs at once, %v", len(orders)*len(crowds), length))
		var takes []bed.Take
		for _, c := range crowds {
			for _, order := range orders {
				takes = append(takes, bed.Take{World: c.world(s, length, from), Policy: inGo(order), Seed: seed})
			}
		}
		out, void, err := bed.Counted(ctx, again, late(s), takes, Peers()...)
		if err != nil {
			return nil, err
		}
		r.Void = append(r.Void, void...)
		for k, c := range crowds {
			both := got[c]
			for d := range orders {
				both[d] = append(both[d], out[k*len(orders)+d])
			}
			got[c] = both
		}
	}
	o.Step(seeds*len(batches), seeds*len(batches), "done")
	var crowds []crowd
	for _, n := range []int{50, 100, 200, 300, 400, 500} {
		if _, ok := got[crowd{n, false}]; ok {
			crowds = append(crowds, crowd{n, false})
		}
	}
	scaleReport(r, s, append(crowds, crowd{mostClients, true}), got)
	return r, nil
}

// orders are those that are compared.
var orders = [...]string{"fifo", "share"}

// scaleReport fills r in with what fifo and share made of each crowd.
func scaleReport(r *experiment.Result, s setting, crowds []crowd, got map[crowd][2][]*bed.Played) {
	t := &table.Table{Title: "Clients that send at a rate", Columns: []table.Column{{Name: "clients"}, {Name: "order"}, milliColumn("chains"), milliColumn("p95"), milliColumn("singles"), milliColumn("p95"),
		percentColumn("chains gave up"), percentColumn("singles gave up"), percentColumn("chains gain"), percentColumn("singles lose"), percentColumn("allowed gain"), percentColumn("beyond the law"), milliColumn("lag")}}
	x, y := plot.Axis{Label: "clients"}, plot.Axis{Label: "mean latency", Unit: "ms"}
	charts := []*plot.Chart{{Title: "Chains", X: x, Y: y}, {Title: "Singles", X: x, Y: y}}
	for k, name := range orders {
		for group, chart := range charts {
			line := plot.Series{Name: name, Dashed: k == 0}
			for _, c := range crowds {
				if !c.impatient {
					both := pool(got[c][k])
					line.X, line.Y = append(line.X, float64(c.clients)), append(line.Y, both[group].mean)
				}
			}
			chart.Series = append(chart.Series, line)
		}
	}
	var gains, harms, beyonds, boths, lost []float64
	for _, c := range crowds {
		fifo, share := pool(got[c][0]), pool(got[c][1])
		gain := 1 - share[chains].mean/fifo[chains].mean
		harm := share[singles].mean/fifo[singles].mean - 1
		row := func(name string, runs []*bed.Played, p [2]pooled, more ...any) {
			lag := time.Duration(0)
			for _, one := range runs {
				lag = max(lag, one.Record.SendLag)
			}
			c1, s1 := p[chains], p[singles]
			t.Add(append(append([]any{c.name(), name, c1.mean, c1.p95, s1.mean, s1.p95, 100 * c1.lost, 100 * s1.lost}, more...), lag.Seconds()*1000)...)
		}
		row("fifo", got[c][0], fifo, nil, nil, nil, nil)
		if c.impatient {
			row("share", got[c][1], share, nil, nil, nil, nil)
			lost = append(lost, share[singles].lost-fifo[singles].lost)
			continue
		}
		beyond := beyondLaw(got[c][1])
		row("share", got[c][1], share, 100*gain, 100*harm, 100*c.allowed(s), 100*beyond)
		if c.allowed(s) >= wantedGain {
			gains = append(gains, gain)
		}
		harms, beyonds, boths = append(harms, harm), append(beyonds, beyond), append(boths, min(ofOneQueue(got[c][1], chains, 0, math.MaxInt64), ofOneQueue(got[c][1], singles, 0, math.MaxInt64)))
	}
	t.Note = "Beyond the law: how far singles are above the least that the conservation law asks for what chains waited. One queue's: what the same arrivals at each server would have waited in order of arrival."
	// The runs are abreast: what disturbs one disturbs all.
	r.On(experiment.Machine{Ours: r.Void, Theirs: r.Void}, func() {
		r.Floor(fmt.Sprintf("chains gain where the law allows 35 %%, worst of %d", len(gains)), " %", 100*wantedGain, 8, 100*slices.Min(gains))
		r.Ceiling("singles lose, worst", " %", 100*allowedHarm, 8, 100*slices.Max(harms))
		r.Ceiling("singles beyond the law's least, worst", " %", 3, 1, 100*slices.Max(beyonds))
		r.Ceiling("the better-off class, worst", " of one queue's", 1, 0, slices.Max(boths))
		r.Ceiling("singles that give up beyond FIFO's", " %", 1, 1.5, 100*slices.Max(lost))
	})
	r.Table, r.Chart = append(r.Table, t), append(r.Chart, charts...)
}

// pooled is what became of a group in several runs.
type pooled struct{ mean, p95, lost float64 } // ms, ms, a share

// pool puts what counts of runs together.
func pool(runs []*bed.Played) (out [2]pooled) {
	w := runs[0].Report
	length := time.Duration(len(w.Bins)) * w.Bin
	for group := range out {
		s := bed.StretchOf(runs, length-w.Measured, length, group)
		out[group] = pooled{milli(s.Mean), milli(s.P95), s.Share(bed.Expired)}
	}
	return out
}
