package interactive

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func law() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/law",
		Title: "the formulas to the printed digits, and how far each order is from the conservation law",
		About: `The queueing formulas behind the controller are computed and compared, digit by digit, with tables worked out
independently: queues whose customers give up, chains, and what FIFO, static shares and priority make of a load. Then the
four servers are simulated: a weight of 0.65 and of 0.9 must give the tabulated latencies within 2 %, and every order that is
never idle with work at hand must be on the line that the conservation law draws. Static shares are far above it: both
classes are slower than in one queue.`,
		Run: runLaw,
	}
}

// printed compares computed values with printed ones, digit by digit.
type printed struct {
	table     *table.Table
	different int
}

func newPrinted(title, first string) *printed {
	return &printed{table: &table.Table{Title: title, Columns: []table.Column{{Name: first}, {Name: "quantity"}, {Name: "computed"}, {Name: "printed"}}}}
}

// add compares value with the printed text, to as many digits as that has.
func (p *printed) add(what, quantity string, value float64, text string) {
	decimals := 0
	if dot := strings.IndexByte(text, '.'); dot >= 0 {
		decimals = len(text) - dot - 1
	}
	cell := table.Cell{Value: strconv.FormatFloat(value, 'f', decimals, 64), Mark: table.Good}
	if cell.Value != text {
		cell.Mark = table.Bad
		p.different++
	}
	p.table.Add(what, quantity, cell, table.Cell{Value: text, Mark: table.Faint})
}

// queues are those with customers who give up.
func queues() *printed {
	mixed := share.Patience{{Weight: 0.7, Rate: 0.05}, {Weight: 0.3, Rate: 0.5}}
	one := func(rate float64) share.Patience { return share.Patience{{Weight: 1, Rate: rate}} }
	p := newPrinted("Queues whose customers give up, service rate 1", "arrivals, patience")
	for _, q := range []struct {
		rate             float64
		who              string
		patience         share.Patience
		idle, lost, wait string
	}{
		{0.8, "exp(.1)", one(0.1), "0.304519", "0.130648", "1.306483"},
		{0.95, "exp(.1)", one(0.1), "0.213758", "0.172377", "1.723767"},
		{1.2, "exp(.1)", one(0.1), "0.103393", "0.252828", "2.528277"},
		{1.2, "exp(.5)", one(0.5), "0.239445", "0.366204", "0.732408"},
		{1, "exp(1)", one(1), "0.367879", "0.367879", "0.367879"},
		{2, "exp(1)", one(1), "0.135335", "0.567668", "0.567668"},
		{0.8, ".7 exp(.05) + .3 exp(.5)", mixed, "0.323107", "0.153883", "1.130524"},
		{0.95, ".7 exp(.05) + .3 exp(.5)", mixed, "0.234891", "0.194622", "1.477650"},
		{1.2, ".7 exp(.05) + .3 exp(.5)", mixed, "0.123156", "0.269297", "2.175187"},
	} {
		what := fmt.Sprintf("%v, %s", q.rate, q.who)
		forms := map[string]func() (share.Queue, bool){"integral": func() (share.Queue, bool) { return share.ImpatientQueue(q.rate, 1, q.patience) }}
		names := []string{"integral"}
		if len(q.patience) == 1 {
			forms["recursion"] = func() (share.Queue, bool) { return share.MarkovQueue(q.rate, 1, q.patience[0].Rate) }
			names = append(names, "recursion")
		}
		for _, form := range names {
			got, ok := forms[form]()
			if !ok {
				got = share.Queue{Idle: math.NaN(), Lost: math.NaN(), Wait: math.NaN()}
			}
			p.add(what, form+": idle", got.Idle, q.idle)
			p.add(what, form+": lost", got.Lost, q.lost)
			p.add(what, form+": wait", got.Wait, q.wait)
		}
	}
	return p
}

// ways are chains of services.
func ways() *printed {
	p := newPrinted("Chains", "chain")
	stage := share.Stage{Service: 40}
	d, ok := share.Chain{stage, stage, stage, stage}.Distribution()
	c, okC := share.Chain{{Service: 40, Transfer: 0.005, TransferSD: 0.001}}.Distribution()
	if !ok || !okC {
		p.different++
		return p
	}
	p.add("Erlang-4 at 40/s", "mean in s", share.Chain{stage, stage, stage, stage}.Mean(), "0.100")
	p.add("Erlang-4 at 40/s", "P(> 0.2 s)", d.Tail(0.2), "0.04238")
	p.add("Erlang-4 at 40/s", "p99 in s", d.Quantile(0.99), "0.2511")
	p.add("exp(40/s) + N(5 ms, 1 ms)", "P(> 50 ms)", c.Tail(0.05), "0.165431")
	return p
}

// tabulated are the loads of the table of orders, with the latencies in ms. The
// simulated ones are at weights of 0.65 and 0.9.
var tabulated = []struct {
	chains, singles       float64
	fifoChain, fifoSingle string
	part, separate        string
	firstChain, firstRest string
	simulated             [2][2]float64
}{
	{30, 30, "100", "25", "0.62", "125", "74.3", "31.4", [2][2]float64{{90.1, 27.3}, {78.5, 30.5}}},
	{40, 40, "200", "50", "0.56", "250", "93.3", "76.7", [2][2]float64{{144.8, 63.7}, {103.3, 73.9}}},
	{20, 60, "200", "50", "0.36", "250", "80", "60", [2][2]float64{{106, 58}, {86, 60}}},
}

// allocations are what orders make of a load.
func allocations() *printed {
	p := newPrinted("Latencies over four servers of 100/s, in ms", "chains, singles per second")
	for _, x := range tabulated {
		what := fmt.Sprintf("%v, %v", x.chains, x.singles)
		s := oracle(x.chains, x.singles)
		l := s.load()
		first, ok := l.FIFO()
		rank, okRank := l.Priority()
		part, both, okBoth := l.Separate()
		if !ok || !okRank || !okBoth {
			p.different++
			continue
		}
		p.add(what, "FIFO, chains", first.Interactive*1e3, x.fifoChain)
		p.add(what, "FIFO, singles", first.Default*1e3, x.fifoSingle)
		p.add(what, "static shares, the chains'", part, x.part)
		p.add(what, "static shares, both", both*1e3, x.separate)
		p.add(what, "priority, chains", rank.Interactive*1e3, x.firstChain)
		p.add(what, "priority, singles", rank.Default*1e3, x.firstRest)
	}
	return p
}

func runLaw(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	r := &experiment.Result{Quick: o.Quick}
	different := 0
	for _, p := range []*printed{queues(), ways(), allocations()} {
		r.Table = append(r.Table, p.table)
		different += p.different
	}
	r.Ceiling("computed values that differ from the printed digits", "", 0, 0, float64(different))

	seeds, length := 8, 4050*time.Second
	if o.Quick {
		seeds, length = 3, 2050*time.Second
	}
	by := []order{fifo(), static(), lottery(0.65), lottery(0.9), priority(), ours()}
	by[2].name, by[3].name = "lottery 0.65", "lottery 0.9"
	var settings []setting
	for _, x := range tabulated {
		s := oracle(x.chains, x.singles)
		s.name = fmt.Sprintf("%v, %v", x.chains, x.singles)
		settings = append(settings, s)
	}
	out, err := compare(ctx, o, settings, by, seeds, 50*time.Second, length)
	if err != nil {
		return nil, err
	}
	t := orderTable("Simulated", table.Column{Name: "formula or table: chains", Unit: "ms", Format: "%.1f"}, table.Column{Name: "singles", Unit: "ms", Format: "%.1f"}, table.Column{Name: "off", Unit: "%", Format: "%.1f"})
	t.Note = "Beyond the law: how far the singles' mean is above what the chains' gain over FIFO costs at the least."
	lines := &plot.Chart{Title: "What order can do at 40, 40: every point of the line costs one class what the other gains",
		X: plot.Axis{Label: "chains, mean", Unit: "ms"}, Y: plot.Axis{Label: "singles, mean", Unit: "ms"}}
	off, beyond, apart := 0.0, 0.0, math.Inf(1)
	for i := range settings {
		s, x := &settings[i], tabulated[i]
		l := s.load()
		first, _ := l.FIFO()
		rank, _ := l.Priority()
		_, both, _ := l.Separate()
		want := [][2]float64{{first.Interactive * 1e3, first.Default * 1e3}, {both * 1e3, both * 1e3}, x.simulated[0], x.simulated[1], {rank.Interactive * 1e3, rank.Default * 1e3}}
		for k := range by {
			got := &out[i][k]
			v := s.judge(&out[i][0], got)
			more := []any{nil, nil, nil}
			if k < len(want) {
				d := max(math.Abs(got.chains.mean()/want[k][0]-1), math.Abs(got.singles.mean()/want[k][1]-1))
				more = []any{want[k][0], want[k][1], 100 * d}
				off = max(off, d)
			}
			if by[k].split {
				apart = min(apart, min(got.chains.mean()/out[i][0].chains.mean(), got.singles.mean()/out[i][0].singles.mean()))
			} else {
				beyond = max(beyond, math.Abs(v.beyond))
			}
			s.row(t, by[k], &out[i][0], got, more...)
			if i == 1 {
				lines.Series = append(lines.Series, plot.Series{Name: by[k].name, X: []float64{got.chains.mean(), got.chains.mean()}, Y: []float64{0, got.singles.mean()}})
			}
		}
	}
	r.Ceiling("simulated against the table, largest difference", " %", 2, 1, 100*off)
	r.Ceiling("from the law, largest, static shares left out", " %", 3, 1, 100*beyond)
	r.Floor("static shares, the better-off class", " of FIFO", 1, 0, apart)
	r.Table = append(r.Table, t)
	r.Chart = append(r.Chart, lines)
	return r, nil
}
