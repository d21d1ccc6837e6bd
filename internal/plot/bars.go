package plot

import (
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	// barShare is the part of a category's width that its bars take.
	barShare = 0.74
	// fewBars is up to how many bars carry their value.
	fewBars = 24
)

// drawBars draws the groups of a bar chart. A value that cannot be shown is a
// dash.
func (c *Chart) drawBars(area draw.Canvas, x, y scale) {
	each := barShare / float64(len(c.Series))
	foot := y.min
	if !y.log && y.min < 0 {
		foot = min(0, y.max)
	}
	label := style(8.5, ink, false)
	label.XAlign = text.XCenter
	for i, s := range c.Series {
		for k := range min(len(s.Y), len(c.Categories)) {
			v := s.Y[k]
			left := float64(k) - barShare/2 + float64(i)*each
			x0, x1 := x.place(left+0.04*each), x.place(left+0.96*each)
			if !y.shows(v) {
				area.FillText(label, at(area, (x0+x1)/2, 0).Add(vg.Point{Y: 2}), "–")
				continue
			}
			y0, y1 := min(max(y.place(foot), 0), 1), min(max(y.place(v), 0), 1)
			area.FillPolygon(palette[i%len(palette)], []vg.Point{at(area, x0, y0), at(area, x0, y1), at(area, x1, y1), at(area, x1, y0)})
			if len(c.Series)*len(c.Categories) <= fewBars {
				area.FillText(label, at(area, (x0+x1)/2, max(y0, y1)).Add(vg.Point{Y: 2}), short(v))
			}
		}
	}
}

// barNames writes the names of the series, each with its colour, above the
// data at the right.
func (c *Chart) barNames(area draw.Canvas, s text.Style) {
	x := area.Max.X
	for i := len(c.Series) - 1; i >= 0; i-- {
		n := c.Series[i].Name
		if n == "" {
			continue
		}
		s.Color = ink
		x -= s.Width(n)
		area.FillText(s, vg.Point{X: x, Y: area.Max.Y}, n)
		x -= 12
		y := area.Max.Y - 9
		area.FillPolygon(palette[i%len(palette)], []vg.Point{{X: x, Y: y}, {X: x + 8, Y: y}, {X: x + 8, Y: y + 8}, {X: x, Y: y + 8}})
		x -= 12
	}
}
