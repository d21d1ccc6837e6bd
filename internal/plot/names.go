package plot

import (
	"cmp"
	"image/color"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// name is a text to the right of the data, and where its line ends.
type name struct {
	text  string
	color color.Color
	x, y  float64 // where the line ends, as shares of the data area
	look  *draw.LineStyle
}

const (
	nameSize   = 9.5
	nameHeight = 12.5 // of a line of names, in points
	nameLead   = 16   // from the data to the text: room for the leader
)

// names returns the texts beside the data: the lines' and the horizontal
// levels'.
func (c *Chart) names(x, y scale) []name {
	var out []name
	if c.Categories == nil {
		for i, s := range c.Series {
			runs := s.points(x, y)
			if s.Name == "" || len(runs) == 0 {
				continue
			}
			last := runs[len(runs)-1]
			end := last[len(last)-1]
			look := c.look(i)
			out = append(out, name{s.Name, darker(look.Color), x.place(end.x), y.place(end.y), &look})
		}
	}
	for _, level := range c.Levels {
		if !level.Vertical && y.shows(level.At) {
			out = append(out, name{level.Name, ink, 1, y.place(level.At), nil})
		}
	}
	return out
}

// nameColumn returns the width that the names take.
func nameColumn(names []name) vg.Length {
	widest := vg.Length(0)
	for _, n := range names {
		widest = max(widest, style(nameSize, ink, false).Width(n.text)+nameLead)
	}
	return widest
}

// drawNames writes each name as near as possible to the height at which its
// line ends, in that order, and leads from there to the name. The name of a
// line that ends before the right edge has only a sample of the line.
func drawNames(area draw.Canvas, names []name) {
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.y, b.y) })
	heights := make([]float64, len(names))
	for i, n := range names {
		heights[i] = min(max(n.y, 0), 1) * float64(area.Size().Y)
	}
	spread(heights, nameHeight)
	for i := range heights { // not above the data
		room := float64(area.Size().Y) - float64(len(heights)-1-i)*nameHeight
		heights[i] = min(heights[i], room)
	}
	for i, n := range names {
		s := style(nameSize, n.color, false)
		s.YAlign = text.YCenter
		y := area.Min.Y + vg.Length(heights[i])
		from := at(area, min(max(n.x, 0), 1), min(max(n.y, 0), 1))
		if n.look != nil {
			to := vg.Point{X: area.Max.X + nameLead - 3, Y: y}
			edge := vg.Point{X: area.Max.X + 2, Y: from.Y}
			if n.x < 0.98 { // the line ends early; a leader would cross the others
				edge.Y = y
			}
			area.StrokeLines(*n.look, []vg.Point{edge, to})
		}
		area.FillText(s, vg.Point{X: area.Max.X + nameLead, Y: y}, n.text)
	}
}

// spread moves ascending heights apart until neighbours are at least gap from
// each other, each group staying around the mean of where it wanted to be.
func spread(heights []float64, gap float64) {
	type group struct {
		sum   float64 // of the wanted heights, each less its offset in the group
		count int
	}
	base := func(g group) float64 { return g.sum / float64(g.count) }
	var groups []group
	for _, h := range heights {
		g := group{h, 1}
		for len(groups) > 0 {
			last := groups[len(groups)-1]
			if base(last)+float64(last.count)*gap <= base(g) {
				break
			}
			g = group{last.sum + g.sum - float64(g.count*last.count)*gap, last.count + g.count}
			groups = groups[:len(groups)-1]
		}
		groups = append(groups, g)
	}
	i := 0
	for _, g := range groups {
		for k := range g.count {
			heights[i] = base(g) + float64(k)*gap
			i++
		}
	}
}

// darker returns a colour that reads as text on white.
func darker(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	part := func(v uint32) uint8 { return uint8(v >> 8 * 3 / 4) }
	return color.RGBA{part(r), part(g), part(b), 0xff}
}
