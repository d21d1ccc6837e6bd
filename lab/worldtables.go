package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// perSecond returns the mean over the seeds of a count of each report, by second.
func (p *played) perSecond(count func(*world.Report) int) float64 {
	sum := 0.0
	for _, r := range p.reports {
		sum += float64(count(r)) / r.Measured.Seconds()
	}
	return sum / float64(len(p.reports))
}

// longest returns the largest of a time of each report; nil if none has one, which
// shows as an empty cell.
func (p *played) longest(of func(*world.Report) time.Duration) any {
	longest := time.Duration(0)
	for _, r := range p.reports {
		longest = max(longest, of(r))
	}
	if longest == 0 {
		return nil
	}
	return longest
}

// clientTable shows what each group of clients got.
func clientTable(w *world.World, results []played) *table.Table {
	const rate = "%.1f"
	t := &table.Table{Title: "What clients got", Columns: []table.Column{
		{Name: "policy"}, {Name: "group"}, {Name: "offered", Unit: "/s", Format: rate}, {Name: "goodput", Unit: "/s", Format: rate},
		{Name: "late", Unit: "/s", Format: rate}, {Name: "refused", Unit: "/s", Format: rate}, {Name: "no answer", Unit: "/s", Format: rate},
		{Name: "p50"}, {Name: "p99"}, {Name: "told"},
	}}
	t.Note = "goodput: answered within the objective and the deadline. p50, p99: of all answers, from the intended send time.\n" +
		"told: the time within which 99 % of the refused clients know."
	if len(results) > 0 && len(results[0].reports) > 1 {
		worst := table.Column{Name: "worst goodput", Unit: "/s", Format: rate}
		t.Columns = slices.Insert(t.Columns, 4, worst)
		t.Note += fmt.Sprintf("\nMeans of %d seeds; worst goodput and the times are those of the worst seed.", len(results[0].reports))
	}
	for i := range results {
		p := &results[i]
		for g := range w.Clients {
			t.Add(p.clientRow(g, w)...)
		}
	}
	return t
}

// clientRow returns the cells of a group.
func (p *played) clientRow(g int, w *world.World) []any {
	rate := func(of func(*world.GroupReport) int) float64 {
		return p.perSecond(func(r *world.Report) int { return of(&r.Groups[g]) })
	}
	row := []any{p.policy, w.Clients[g].Name,
		rate(func(g *world.GroupReport) int { return g.Offered }),
		rate(func(g *world.GroupReport) int { return g.Good })}
	if len(p.reports) > 1 {
		worst := slices.MinFunc(p.reports, func(a, b *world.Report) int {
			return cmp.Compare(float64(a.Groups[g].Good)/a.Measured.Seconds(), float64(b.Groups[g].Good)/b.Measured.Seconds())
		})
		row = append(row, float64(worst.Groups[g].Good)/worst.Measured.Seconds())
	}
	p99 := p.longest(func(r *world.Report) time.Duration { return r.Groups[g].P99 })
	if d, ok := p99.(time.Duration); ok && d > w.Objective {
		p99 = table.Cell{Value: d, Mark: table.Bad}
	}
	return append(row,
		rate(func(g *world.GroupReport) int { return g.Late }),
		rate(func(g *world.GroupReport) int { return g.Refused }),
		rate(func(g *world.GroupReport) int { return g.Expired + g.Failed }),
		p.longest(func(r *world.Report) time.Duration { return r.Groups[g].P50 }), p99,
		p.told(g))
}

// told returns the time within which refused clients knew; nil if none was refused.
func (p *played) told(g int) any {
	if !slices.ContainsFunc(p.reports, func(r *world.Report) bool { return r.Groups[g].Refused > 0 }) {
		return nil
	}
	longest := time.Duration(0)
	for _, r := range p.reports {
		longest = max(longest, r.Groups[g].Told)
	}
	return longest
}

// reasonTable shows why requests were refused, with a column for each reason that
// there was. It has no row if nothing was refused.
func reasonTable(w *world.World, results []played) *table.Table {
	rate := func(p *played, g int, reason work.Reason) float64 {
		return p.perSecond(func(r *world.Report) int { return r.Groups[g].Reasons[reason] })
	}
	var reasons []work.Reason
	t := &table.Table{Title: "Why requests were refused", Columns: []table.Column{{Name: "policy"}, {Name: "group"}}}
	for reason := range work.Reason(work.NumReasons) {
		some := false
		for i := range results {
			for g := range w.Clients {
				some = some || rate(&results[i], g, reason) > 0
			}
		}
		if some {
			reasons = append(reasons, reason)
			t.Columns = append(t.Columns, table.Column{Name: reason.String(), Unit: "/s", Format: "%.1f"})
		}
	}
	for i := range results {
		for g := range w.Clients {
			row, some := []any{results[i].policy, w.Clients[g].Name}, false
			for _, reason := range reasons {
				var cell any
				if x := rate(&results[i], g, reason); x > 0 {
					cell, some = x, true
				}
				row = append(row, cell)
			}
			if some {
				t.Add(row...)
			}
		}
	}
	return t
}

// serviceTable shows what each service did.
func serviceTable(results []played) *table.Table {
	const rate = "%.1f"
	t := &table.Table{Title: "What services did", Columns: []table.Column{
		{Name: "policy"}, {Name: "service"}, {Name: "begun", Unit: "/s", Format: rate}, {Name: "finished", Unit: "/s", Format: rate}, {Name: "wasted", Unit: "%", Format: "%.1f"},
		{Name: "refused", Unit: "/s", Format: rate}, {Name: "busy", Unit: "requests", Format: "%.2f"}, {Name: "limit"},
	}, Note: "wasted: share of the begun work that was finished after the caller had given up. busy: the mean number of requests at work.\n" +
		"limit: the policy's concurrency limit at the end, in the first process."}
	for i := range results {
		p := &results[i]
		for s := range p.reports[0].Services {
			of := func(count func(*world.ServiceReport) int) float64 {
				return p.perSecond(func(r *world.Report) int { return count(&r.Services[s]) })
			}
			begun := of(func(s *world.ServiceReport) int { return s.Begun })
			var wasted any
			if begun > 0 {
				wasted = 100 * of(func(s *world.ServiceReport) int { return s.Wasted }) / begun
			}
			busy := p.perSecond(func(r *world.Report) int { return int(r.Services[s].Busy) }) / float64(time.Second)
			t.Add(p.policy, p.reports[0].Services[s].Name, begun, of(func(s *world.ServiceReport) int { return s.Finished }), wasted,
				of(func(s *world.ServiceReport) int { return s.Refused }), busy, p.limits(s))
		}
	}
	return t
}

// limits returns the limit of a service at the end, or the range over the seeds; nil
// if there is none.
func (p *played) limits(s int) any {
	var last []int
	for _, r := range p.reports {
		if limits := r.Services[s].Limits; len(limits) > 0 && limits[len(limits)-1] > 0 {
			last = append(last, limits[len(limits)-1])
		}
	}
	if len(last) == 0 {
		return nil
	}
	if least, most := slices.Min(last), slices.Max(last); least != most {
		return fmt.Sprintf("%d–%d", least, most)
	}
	return last[0]
}

// overTime returns the mean over the seeds of a count of each bin, by second, and
// the instants, in seconds, at which the bins begin.
func (p *played) overTime(count func(*world.Counts) int) (at, rate []float64) {
	bins := len(p.reports[0].Bins)
	for _, r := range p.reports {
		bins = min(bins, len(r.Bins))
	}
	for i := range bins {
		sum := 0.0
		for _, r := range p.reports {
			sum += float64(count(&r.Bins[i])) / r.Bin.Seconds()
		}
		at = append(at, float64(i)*p.reports[0].Bin.Seconds())
		rate = append(rate, sum/float64(len(p.reports)))
	}
	return at, rate
}

// goodputLines draws goodput over time, a line for each policy, all at one scale.
func goodputLines(results []played) string {
	const width = 60
	offered := "offered"
	type line struct {
		name   string
		values []float64
	}
	var lines []line
	for i := range results {
		p := &results[i]
		if i == 0 {
			_, values := p.overTime(func(c *world.Counts) int { return c.Offered })
			lines = append(lines, line{offered, squeeze(values, width)})
		}
		_, values := p.overTime(func(c *world.Counts) int { return c.Good })
		lines = append(lines, line{p.policy, squeeze(values, width)})
	}
	top, names := 0.0, 0
	for _, l := range lines {
		names = max(names, utf8.RuneCountInString(l.name))
		for _, v := range l.values {
			top = max(top, v)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Goodput over time, all groups, up to %.0f/s\n", top)
	for _, l := range lines {
		// The top stands at the end for the scale, and is cut off again.
		spark := []rune(plot.Spark(append(l.values, top), width+1))
		fmt.Fprintf(&b, "%-*s  %s\n", names, l.name, string(spark[:len(spark)-1]))
	}
	return b.String()
}

// squeeze returns values averaged into at most width of them.
func squeeze(values []float64, width int) []float64 {
	per := (len(values) + width - 1) / width
	var out []float64
	for part := range slices.Chunk(values, max(per, 1)) {
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		out = append(out, sum/float64(len(part)))
	}
	return out
}
