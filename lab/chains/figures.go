package chains

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/bed"
)

func milli(d time.Duration) float64 { return d.Seconds() * 1000 }

func milliColumn(name string) table.Column {
	return table.Column{Name: name, Unit: "ms", Format: "%.1f"}
}

func percentColumn(name string) table.Column {
	return table.Column{Name: name, Unit: "%", Format: "%.1f"}
}

func latencyTable(title string) *table.Table {
	return &table.Table{Title: title, Columns: []table.Column{{Name: "order"}, milliColumn("chains"), milliColumn("chains, p95"), milliColumn("singles"), milliColumn("singles, p95"),
		percentColumn("gave up"), percentColumn("refused"), milliColumn("lag")}}
}

// counted is what counts of a run: all after the warm-up.
func counted(p *bed.Played, group int) bed.Stretch {
	length := time.Duration(len(p.Report.Bins)) * p.Report.Bin
	return p.Stretch(group, length-p.Report.Measured, length)
}

func latencyRow(name string, p *bed.Played) []any {
	c, s := counted(p, chains), counted(p, singles)
	percent := func(n int) float64 { return 100 * float64(n) / float64(max(c.Offered+s.Offered, 1)) }
	refused := c.By[bed.Refused] + c.By[bed.RefusedBelow] + s.By[bed.Refused] + s.By[bed.RefusedBelow]
	return []any{name, milli(c.Mean), milli(c.P95), milli(s.Mean), milli(s.P95),
		percent(c.By[bed.Expired] + s.By[bed.Expired]), percent(refused), milli(p.Record.SendLag)}
}

// law sums up what the servers of several runs say; false if callers gave up in one.
func law(runs []*bed.Played) (sum bed.Law, ok bool) {
	for _, p := range runs {
		l := p.Law()
		if _, ok := l.Distance(); !ok {
			return sum, false
		}
		sum.Add(&l)
	}
	return sum, true
}

// ofOneQueue is the mean latency of a group in a stretch, as a share of
// what it would be if the same arrivals at each server had been served in order of
// arrival, with the same service times. Before and after the stretch, order must have
// changed nothing. It is NaN if callers gave up.
func ofOneQueue(runs []*bed.Played, group int, from, to time.Duration) float64 {
	sum, ok := law(runs)
	if !ok {
		return math.NaN()
	}
	class := [...]work.Class{chains: work.Interactive, singles: work.Default}[group]
	s := bed.StretchOf(runs, from, to, group)
	took := s.Mean.Seconds() * float64(s.Answered())
	return took / (took - (sum.Class[class].Waited - sum.Class[class].FIFO).Seconds())
}

// beyondLaw is how far the time of singles at servers is above the least that the
// conservation law asks for what chains waited there, as a share of that: the same
// arrivals and service times in one queue in order of arrival would have waited less
// by what the order wasted, and all of that is put to the singles' account. It is
// NaN if callers gave up.
func beyondLaw(runs []*bed.Played) float64 {
	sum, ok := law(runs)
	if !ok {
		return math.NaN()
	}
	s := bed.StretchOf(runs, 0, math.MaxInt64, singles)
	wasted := sum.Wasted().Seconds()
	return wasted / (s.Mean.Seconds()*float64(s.Answered()) - wasted)
}
