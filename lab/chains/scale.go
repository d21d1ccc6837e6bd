package chains

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/work"
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
func (c crowd) rates(s Setting) (chains, singles float64) {
	visits := mostClientsLoad * s.Capacity() * float64(c.clients) / mostClients
	return chainsOfWork * visits, (1 - chainsOfWork) * visits * float64(s.Servers)
}

// allowed is the largest gain of chains, in theory, that harm of a quarter to
// singles pays for and priority reaches.
func (c crowd) allowed(s Setting) float64 {
	l := s.Model(c.rates(s))
	fifo, _ := l.FIFO()
	first, _ := l.Priority()
	paid := allowedHarm * fifo.Default * l.Default / (l.Interactive * fifo.Interactive / float64(l.Hops))
	return min(paid, 1-first.Interactive/fifo.Interactive)
}

func (c crowd) load(s Setting, length, from time.Duration, seed uint64) Load {
	chains, singles := c.rates(s)
	l := Load{Chains: openloop.Steady(chains, length), Singles: openloop.Steady(singles, length), From: from, Least: 1000, Most: 1000, Seed: seed}
	if c.impatient {
		l.Patience = [work.NumClasses]time.Duration{work.Interactive: 200 * s.Mean, work.Default: 25 * s.Mean}
	}
	return l
}

func runScaleLive(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	setting, err := Setting{}.withDefaults()
	if err != nil {
		return nil, err
	}
	// What runs at the same time is as much as two processors do with ease.
	batches := [][]crowd{{{50, false}, {100, false}, {400, false}, {500, true}}, {{200, false}, {300, false}, {500, false}}}
	seeds, length, from := 2, 100*time.Second, 20*time.Second
	if o.Quick {
		batches = [][]crowd{{{50, false}, {300, false}, {500, false}, {500, true}}}
		seeds, length, from = 1, 34*time.Second, 12*time.Second
	}
	by := []Discipline{{Name: "fifo", Kind: FIFO}, {Name: "share", Kind: Share}}
	r, again := &experiment.Result{Quick: o.Quick}, batchRetakes(o)
	got := map[crowd][2][]trialed{}
	for i := range seeds * len(batches) {
		crowds, seed := batches[i%len(batches)], o.Seed*100+uint64(i/len(batches))
		step(o, i, seeds*len(batches), fmt.Sprintf("%d runs at once, %v", len(by)*len(crowds), length))
		var trials []trial
		for _, c := range crowds {
			for _, d := range by {
				s := setting
				s.Seed = seed
				trials = append(trials, trial{fmt.Sprintf("%s, %s, seed %d", c.name(), d.Name, seed), s, d, c.load(s, length, from, seed)})
			}
		}
		out, err := abreast(ctx, r, again, trials)
		if err != nil {
			return nil, err
		}
		for k, c := range crowds {
			both := got[c]
			for d := range by {
				both[d] = append(both[d], out[k*len(by)+d])
			}
			got[c] = both
		}
	}
	step(o, seeds*len(batches), seeds*len(batches), "done")
	var crowds []crowd
	for _, n := range []int{50, 100, 200, 300, 400, 500} {
		if _, ok := got[crowd{n, false}]; ok {
			crowds = append(crowds, crowd{n, false})
		}
	}
	scaleReport(r, setting, append(crowds, crowd{mostClients, true}), got)
	return r, nil
}

// scaleReport fills r in with what fifo and share made of each crowd.
func scaleReport(r *experiment.Result, s Setting, crowds []crowd, got map[crowd][2][]trialed) {
	milli := func(name string) table.Column { return table.Column{Name: name, Unit: "ms", Format: "%.1f"} }
	percent := func(name string) table.Column { return table.Column{Name: name, Unit: "%", Format: "%.1f"} }
	t := &table.Table{Title: "Clients that send at a rate", Columns: []table.Column{{Name: "clients"}, {Name: "order"}, milli("chains"), milli("p95"), milli("singles"), milli("p95"),
		percent("chains gave up"), percent("singles gave up"), percent("chains gain"), percent("singles lose"), percent("allowed gain"), percent("beyond the law"), milli("lag")}}
	x, y := plot.Axis{Label: "clients"}, plot.Axis{Label: "mean latency", Unit: "ms"}
	charts := []*plot.Chart{{Title: "Chains", X: x, Y: y}, {Title: "Singles", X: x, Y: y}}
	for k, name := range []string{"fifo", "share"} {
		for class, chart := range charts {
			line := plot.Series{Name: name, Dashed: k == 0}
			for _, c := range crowds {
				if !c.impatient {
					both := pool(got[c][k])
					line.X, line.Y = append(line.X, float64(c.clients)), append(line.Y, []float64{both[work.Interactive].mean, both[work.Default].mean}[class])
				}
			}
			chart.Series = append(chart.Series, line)
		}
	}
	var gains, harms, beyonds, boths, lost []float64
	for _, c := range crowds {
		fifo, share := pool(got[c][0]), pool(got[c][1])
		gain := 1 - share[work.Interactive].mean/fifo[work.Interactive].mean
		harm := share[work.Default].mean/fifo[work.Default].mean - 1
		row := func(name string, runs []trialed, p [work.NumClasses]pooled, more ...any) {
			lag := time.Duration(0)
			for _, one := range runs {
				lag = max(lag, one.Lag)
			}
			chains, singles := p[work.Interactive], p[work.Default]
			t.Add(append(append([]any{c.name(), name, chains.mean, chains.p95, singles.mean, singles.p95, 100 * chains.lost, 100 * singles.lost}, more...), lag.Seconds()*1000)...)
		}
		row("fifo", got[c][0], fifo, nil, nil, nil, nil)
		if c.impatient {
			row("share", got[c][1], share, nil, nil, nil, nil)
			lost = append(lost, share[work.Default].lost-fifo[work.Default].lost)
			continue
		}
		beyond := beyondLaw(got[c][1])
		row("share", got[c][1], share, 100*gain, 100*harm, 100*c.allowed(s), 100*beyond)
		if c.allowed(s) >= wantedGain {
			gains = append(gains, gain)
		}
		harms, beyonds, boths = append(harms, harm), append(beyonds, beyond), append(boths, min(ofOneQueueAll(got[c][1], work.Interactive), ofOneQueueAll(got[c][1], work.Default)))
	}
	t.Note = "Beyond the law: how far singles are above the least that the conservation law asks for what chains waited. One queue's: what the same arrivals at each server would have waited in order of arrival."
	largest := func(of []float64) float64 {
		most := of[0]
		for _, v := range of {
			most = max(most, v)
		}
		return most
	}
	least := gains[0]
	for _, g := range gains {
		least = min(least, g)
	}
	// The runs are abreast: what disturbs one disturbs all.
	r.On(experiment.Machine{Ours: r.Void, Theirs: r.Void}, func() {
		r.Floor(fmt.Sprintf("chains gain where the law allows 35 %%, worst of %d", len(gains)), " %", 100*wantedGain, 8, 100*least)
		r.Ceiling("singles lose, worst", " %", 100*allowedHarm, 8, 100*largest(harms))
		r.Ceiling("singles beyond the law's least, worst", " %", 3, 1, 100*largest(beyonds))
		r.Ceiling("the better-off class, worst", " of one queue's", 1, 0, largest(boths))
		r.Ceiling("singles that give up beyond FIFO's", " %", 1, 1.5, 100*largest(lost))
	})
	r.Table, r.Chart = append(r.Table, t), append(r.Chart, charts...)
}

// ofOneQueueAll is ofOneQueue of whole runs.
func ofOneQueueAll(runs []trialed, class work.Class) float64 {
	return ofOneQueue(runs, class, 0, len(runs[0].Class[class].Series))
}

// pooled is what became of a class in several runs.
type pooled struct{ mean, p95, lost float64 } // ms, ms, a share

// pool puts runs together; the p95 is the mean of theirs.
func pool(runs []trialed) (out [work.NumClasses]pooled) {
	for class := range out {
		var sum, p95 time.Duration
		served, offered, gaveUp := 0, 0, 0
		for _, one := range runs {
			c := &one.Class[class]
			sum += c.Mean * time.Duration(c.Served)
			p95 += c.P95
			served, offered, gaveUp = served+c.Served, offered+c.Offered, gaveUp+c.Abandoned
		}
		out[class] = pooled{sum.Seconds() * 1e3 / float64(served), p95.Seconds() * 1e3 / float64(len(runs)), float64(gaveUp) / float64(offered)}
	}
	return out
}
