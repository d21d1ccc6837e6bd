package plot

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// marks are the letters of the series in a text chart.
const marks = "*+ox#@%&"

// Text draws the chart with characters, width columns wide and height lines
// high between its axes, for terminals and for expected output in tests. Sizes
// below 20 by 4 are raised to that.
//
//	goodput, k/s
//	 1.0 |      ******
//	 0.5 |- - *- - - - -
//	   0 |****
//	     +------------
//	      0          1
//	  time, s   * breakwater   - SLO
func (c *Chart) Text(width, height int) string {
	c = c.clean()
	if c.Categories != nil {
		return c.textBars(width)
	}
	height = max(height, 4)
	x, y := c.scales()
	labels := rowLabels(y, height)
	margin := 0
	for _, label := range labels {
		margin = max(margin, utf8.RuneCountInString(label))
	}
	g := newTextGrid(x, y, max(max(width, 20)-margin-2, 10), height)
	legend := c.textLevels(g)
	c.textSeries(g)
	for i, s := range c.Series {
		if s.Name != "" {
			legend = append(legend, string(marks[i%len(marks)])+" "+s.Name)
		}
	}

	var out strings.Builder
	if c.Title != "" {
		out.WriteString(c.Title + "\n")
	}
	if title := c.Y.title(); title != "" {
		out.WriteString(title + "\n")
	}
	for r, text := range g.cells {
		out.WriteString(strings.TrimRight(fmt.Sprintf("%*s |%s", margin, labels[height-1-r], text), " ") + "\n")
	}
	fmt.Fprintf(&out, "%*s +%s\n", margin, "", strings.Repeat("-", g.columns))
	fmt.Fprintf(&out, "%*s  %s\n", margin, "", g.axis())
	if title := c.X.title(); title != "" {
		legend = append([]string{title}, legend...)
	}
	if len(legend) > 0 {
		fmt.Fprintf(&out, "%*s  %s\n", margin, "", strings.Join(legend, "   "))
	}
	return out.String()
}

// textLevels draws the levels as lines and returns their entries of the legend.
func (c *Chart) textLevels(g *textGrid) (legend []string) {
	for _, level := range c.Levels {
		if level.Vertical && g.x.shows(level.At) {
			for r := range g.rows {
				g.put(g.column(level.At), r, '|')
			}
			legend = append(legend, "| "+level.Name)
		} else if !level.Vertical && g.y.shows(level.At) {
			for i := 0; i < g.columns; i += 2 {
				g.put(i, g.row(g.y.place(level.At)), '-')
			}
			legend = append(legend, "- "+level.Name)
		}
	}
	return legend
}

// textSeries draws every series, the first one on top.
func (c *Chart) textSeries(g *textGrid) {
	for i := len(c.Series) - 1; i >= 0; i-- {
		mark := marks[i%len(marks)]
		for _, run := range c.Series[i].points(g.x, g.y) {
			for k, p := range run {
				g.put(g.column(p.x), g.row(g.y.place(p.y)), mark)
				if k > 0 {
					g.join(run[k-1], p, mark)
				}
			}
		}
	}
}

// textGrid is the drawing area of a text chart: one mark a cell, the top row first.
type textGrid struct {
	x, y          scale
	columns, rows int
	cells         [][]byte
}

func newTextGrid(x, y scale, columns, rows int) *textGrid {
	g := &textGrid{x: x, y: y, columns: columns, rows: rows, cells: make([][]byte, rows)}
	for r := range g.cells {
		g.cells[r] = []byte(strings.Repeat(" ", columns))
	}
	return g
}

// column returns the column of a value of x; row returns the row, from the bottom, of a
// share of the y axis.
func (g *textGrid) column(v float64) int  { return cellOf(g.x.place(v), g.columns) }
func (g *textGrid) row(share float64) int { return cellOf(share, g.rows) }

// put marks a cell. A cell outside the grid is left out.
func (g *textGrid) put(column, row int, mark byte) {
	if column >= 0 && column < g.columns && row >= 0 && row < g.rows {
		g.cells[g.rows-1-row][column] = mark
	}
}

// join fills the columns between two points of a series.
func (g *textGrid) join(p, q point, mark byte) {
	from, to := g.column(p.x), g.column(q.x)
	for at := from + 1; at < to; at++ {
		share := float64(at-from) / float64(to-from)
		g.put(at, g.row(g.y.place(p.y)+(g.y.place(q.y)-g.y.place(p.y))*share), mark)
	}
}

// axis returns the labels below the grid, as many as fit.
func (g *textGrid) axis() string {
	axis := []rune(strings.Repeat(" ", g.columns+12))
	free := 0
	for _, t := range g.x.ticks(max(2, g.columns/12)) {
		at := g.column(t.at)
		if t.label == "" || at < free || at >= g.columns {
			continue
		}
		copy(axis[at:], []rune(t.label))
		free = at + utf8.RuneCountInString(t.label) + 2
	}
	return strings.TrimRight(string(axis), " ")
}

// cellOf returns which of n cells a share of an axis falls into, -1 if it lies
// before the first and n if it lies behind the last.
func cellOf(place float64, n int) int {
	return int(min(max(math.Round(place*float64(n-1)), -1), float64(n)))
}

// rowLabels returns the label of each line of a text chart, from the foot up:
// that of the tick which falls into it.
func rowLabels(y scale, height int) []string {
	labels := make([]string, height)
	for _, t := range y.ticks(max(2, height/2)) {
		if r := cellOf(y.place(t.at), height); t.label != "" && r >= 0 && r < height && labels[r] == "" {
			labels[r] = t.label
		}
	}
	return labels
}

// textBars draws a bar chart lying down, one line for each bar.
func (c *Chart) textBars(width int) string {
	_, y := c.scales()
	margin, group := 0, 0
	for _, s := range c.Series {
		margin = max(margin, utf8.RuneCountInString(s.Name))
	}
	for _, name := range c.Categories {
		group = max(group, utf8.RuneCountInString(name))
	}
	columns := max(max(width, 20)-group-margin-10, 5)
	var out strings.Builder
	for _, heading := range []string{c.Title, c.Y.title()} {
		if heading != "" {
			out.WriteString(heading + "\n")
		}
	}
	for k, name := range c.Categories {
		for i, s := range c.Series {
			if i > 0 {
				name = ""
			}
			bar, value := "", "-"
			if k < len(s.Y) && y.shows(s.Y[k]) {
				bar = strings.Repeat("=", int(math.Round(min(max(0, y.place(s.Y[k])), 1)*float64(columns))))
				value = short(s.Y[k])
			}
			out.WriteString(strings.TrimRight(fmt.Sprintf("%-*s  %-*s |%s %s", group, name, margin, s.Name, bar, value), " ") + "\n")
		}
	}
	return out.String()
}

// Spark draws values on one line, with eight heights from zero, or from the
// smallest value if that is negative, to the largest: ▁▂▃▄▅▆▇█. The last width
// values are shown; one that is not finite is a space.
func Spark(values []float64, width int) string {
	values = values[max(0, len(values)-max(width, 0)):]
	low, high := 0.0, math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	var out strings.Builder
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out.WriteByte(' ')
			continue
		}
		height := 0
		if high > low {
			height = int(math.Round((v - low) / (high - low) * 7))
		}
		out.WriteRune([]rune("▁▂▃▄▅▆▇█")[height])
	}
	return out.String()
}
