package screen

import (
	"math"
	"strings"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

// layer is one colour of a chart.
type layer uint8

const (
	layerNone layer = iota
	layerOffered
	layerGood
	layerP50
	layerP99
	layerLate
	layerRule
	layers
)

// monoFull is what fills a cell of each layer where there are no colours.
var monoFull = [layers]rune{' ', '░', '█', '█', '▒', '▒', '┄'}

// eighths are the blocks of 0 to 8 eighths of a cell, from below.
var eighths = [9]rune{' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'}

// cell is one character of a chart, its colour, and that of its ground.
type cell struct {
	r        rune
	fg, back layer
}

// column is one column of an area chart: low is drawn in front of high, both in
// eighths of a cell from the bottom.
type column struct {
	low, high         int
	lowLayer, highTop layer
}

// area draws columns, height lines high. rule is a line to mark, -1 for none;
// marks are columns that get a faint vertical line where nothing is drawn.
func (l *look) area(columns []column, height, rule int, marks map[int]bool) []string {
	rows := make([]string, height)
	for i := range rows {
		row := height - 1 - i
		cells := make([]cell, len(columns))
		for x, c := range columns {
			cells[x] = l.cell(c, row)
			if cells[x].fg != layerNone {
				continue
			}
			switch {
			case row == rule:
				cells[x] = cell{'┄', layerRule, layerNone}
			case marks[x]:
				cells[x] = cell{'┊', layerRule, layerNone}
			}
		}
		rows[i] = l.paint(cells)
	}
	return rows
}

// cell returns what a column shows in a row, from 0 at the bottom.
func (l *look) cell(c column, row int) cell {
	low, high := min(max(c.low-8*row, 0), 8), min(max(c.high-8*row, 0), 8)
	if l.mono {
		switch {
		case low >= 4:
			return cell{monoFull[c.lowLayer], c.lowLayer, layerNone}
		case high >= 4:
			return cell{monoFull[c.highTop], c.highTop, layerNone}
		}
		return cell{' ', layerNone, layerNone}
	}
	switch {
	case low == 8, low > 0 && high < 8:
		return cell{eighths[low], c.lowLayer, layerNone}
	case low > 0: // the taller one fills the rest of the cell
		return cell{eighths[low], c.lowLayer, c.highTop}
	case high > 0:
		return cell{eighths[high], c.highTop, layerNone}
	}
	return cell{' ', layerNone, layerNone}
}

// paint writes cells, with one colour change for each run of equal ones.
func (l *look) paint(cells []cell) string {
	var out, run strings.Builder
	flush := func(c cell) {
		style := l.r.NewStyle()
		if c.fg != layerNone {
			style = style.Foreground(l.charts[c.fg])
		}
		if c.fg == layerRule {
			style = style.Faint(true)
		}
		if c.back != layerNone {
			style = style.Background(l.charts[c.back])
		}
		out.WriteString(style.Render(run.String()))
		run.Reset()
	}
	for i, c := range cells {
		if i > 0 && (c.fg != cells[i-1].fg || c.back != cells[i-1].back) {
			flush(cells[i-1])
		}
		run.WriteRune(c.r)
	}
	if len(cells) > 0 {
		flush(cells[len(cells)-1])
	}
	return out.String()
}

// sample spreads an act's points over width columns, its whole length: column x
// gets those that end in its stretch of time, or the one before if there is none.
// Columns that lie ahead are left out.
func sample(s *demo.State, a *demo.Act, width int) [][]stage.Point {
	if len(a.Points) == 0 || s.ActLength <= 0 {
		return nil
	}
	var out [][]stage.Point
	next := 0
	for x := range width {
		from, to := s.ActLength*float64(x)/float64(width), s.ActLength*float64(x+1)/float64(width)
		if from >= a.Last().T {
			break
		}
		first := next
		for next < len(a.Points) && a.Points[next].T <= to+1e-9 {
			next++
		}
		if next == first {
			at := min(max(next, 0), len(a.Points)-1)
			out = append(out, a.Points[at:at+1])
			continue
		}
		out = append(out, a.Points[first:next])
	}
	return out
}

// marks returns the columns at which the load changes.
func marks(s *demo.State, width int) map[int]bool {
	out := map[int]bool{}
	for _, step := range s.Steps[1:] {
		out[int(step.From/s.ActLength*float64(width))] = true
	}
	return out
}

// loadChart draws goodput before offered load.
func (l *look) loadChart(s *demo.State, a *demo.Act, width, height int) []string {
	most := s.Capacity.Rate * s.Steps[s.Overload()].Factor * 1.1
	columns := make([]column, width)
	for x, points := range sample(s, a, width) {
		offered, good := 0.0, 0.0
		for _, p := range points {
			offered += p.Offered / float64(len(points))
			good += p.Goodput / float64(len(points))
		}
		columns[x] = column{toEighths(good/most, height), toEighths(max(offered, good)/most, height), layerGood, layerOffered}
	}
	rule := -1
	if most > 0 {
		rule = int(s.Capacity.Rate / most * float64(height))
	}
	return l.area(columns, height, rule, marks(s, width))
}

// latencyChart draws p50 before p99 on a logarithmic scale, from leastMS to the
// callers' timeout.
func (l *look) latencyChart(s *demo.State, a *demo.Act, width, height int) []string {
	const leastMS = 3
	place := func(ms float64) float64 {
		if ms <= leastMS {
			return 0
		}
		return math.Log(ms/leastMS) / math.Log(max(s.TimeoutMS, 2*leastMS)/leastMS)
	}
	columns := make([]column, width)
	for x, points := range sample(s, a, width) {
		var p50, p99 float64
		for _, p := range points {
			p50, p99 = max(p50, p.P50MS), max(p99, p.P99MS)
		}
		c := column{toEighths(place(p50), height), toEighths(place(p99), height), layerP50, layerP99}
		if p99 > s.SLOMS {
			c.highTop = layerLate
		}
		if p50 > s.SLOMS {
			c.lowLayer = layerLate
		}
		columns[x] = c
	}
	return l.area(columns, height, int(place(s.SLOMS)*float64(height)), marks(s, width))
}

// toEighths returns a share of the height in eighths of a line. What is above
// zero shows.
func toEighths(share float64, height int) int {
	if math.IsNaN(share) || share <= 0 {
		return 0
	}
	return max(1, int(math.Round(min(share, 1)*8*float64(height))))
}
