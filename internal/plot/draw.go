package plot

import (
	"bytes"
	"image/color"
	"io"
	"slices"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of every picture, in points, so that two of them compare.
const (
	width  = 560
	height = 300
)

// palette holds colours that readers with any of the common colour-vision
// deficiencies tell apart: the set of Okabe and Ito, without its yellow, which
// is too light for a line on white.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // green
	{0xcc, 0x79, 0xa7, 0xff}, // pink
	{0x56, 0xb4, 0xe9, 0xff}, // sky
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x55, 0x55, 0x55, 0xff}, // grey
}

var (
	ink   = color.Gray{0x33}
	faded = color.Gray{0x70}
	grid  = color.Gray{0xe6}
	shade = color.RGBA{0xf3, 0xf1, 0xea, 0xff}
)

// SVG writes the chart as a standalone SVG document, which follows the reader's
// preference for a light or a dark page.
func (c *Chart) SVG(w io.Writer) error {
	canvas := vgsvg.New(width, height)
	c.clean().draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	// The fonts are not embedded; where they are missing, these have the same
	// metrics.
	const family = "font-family:Liberation Sans;"
	drawing := bytes.ReplaceAll(out.Bytes(), []byte(family), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	drawing = bytes.Replace(drawing, []byte("<g "), []byte(dark()+"\n<g "), 1)
	if _, after, ok := bytes.Cut(drawing, []byte("-->\n")); ok { // the library's comment about itself
		drawing = append([]byte("<?xml version=\"1.0\"?>\n"), after...)
	}
	_, err := w.Write(drawing)
	return err
}

// PNG writes the chart as a PNG image.
func (c *Chart) PNG(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
	c.clean().draw(draw.New(canvas))
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// style returns a text style of the house.
func style(size float64, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
	if bold {
		f.Weight = 3 // bold, of golang.org/x/image/font
	}
	return text.Style{Color: c, Font: f, Handler: text.Plain{Fonts: font.DefaultCache}}
}

// draw lays the chart out:
//
//	title
//	Y axis' title
//	│ data                      ─ names of the
//	│                           ─ lines
//	└──────────────────────────
//	                X axis' title
func (c *Chart) draw(canvas draw.Canvas) {
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	inner := draw.Crop(canvas, 10, -12, 8, -8)

	title := style(12.5, ink, true)
	title.YAlign = text.YTop
	if c.Title != "" {
		inner.FillText(title, vg.Point{X: inner.Min.X, Y: inner.Max.Y}, c.Title)
		inner.Max.Y -= 19
	}
	above := style(9.5, faded, false)
	above.YAlign = text.YTop
	inner.FillText(above, vg.Point{X: inner.Min.X, Y: inner.Max.Y}, c.Y.title())

	x, y := c.scales()
	names := c.names(x, y)
	if c.Categories != nil {
		c.barNames(inner, above)
	}
	inner.Max.Y -= 18

	p := c.axes(x, y)
	data := draw.Crop(inner, 0, -nameColumn(names), 0, 0)
	p.Draw(data)
	drawNames(p.DataCanvas(data), names)
}

// axes returns a plot with the house's axes and everything inside them.
func (c *Chart) axes(x, y scale) *gonum.Plot {
	p := gonum.New()
	p.BackgroundColor = nil
	for _, side := range []struct {
		axis  *gonum.Axis
		scale scale
		ticks []tick
	}{{&p.X, x, c.xTicks(x)}, {&p.Y, y, y.ticks(6)}} {
		a := side.axis
		a.Min, a.Max = side.scale.min, side.scale.max
		if side.scale.log {
			a.Scale = gonum.LogScale{}
		}
		marks := make(gonum.ConstantTicks, len(side.ticks))
		for i, t := range side.ticks {
			marks[i] = gonum.Tick{Value: t.at, Label: t.label}
		}
		a.Tick.Marker = marks
		align := a.Tick.Label
		a.Tick.Label = style(9.5, ink, false)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
		a.Tick.Color, a.Tick.Length = faded, 3
		a.Color, a.Width = faded, 0.6
		a.Padding = 0
		a.Label.TextStyle = style(9.5, faded, false)
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign = draw.XCenter, draw.YBottom
		a.Label.Padding = 3
	}
	p.Y.LineStyle.Width = 0 // the grid says enough
	p.Y.Tick.Length = 0
	p.X.Label.Text = c.X.title()
	if c.Categories != nil {
		p.X.Tick.Color = color.Transparent // but keep the distance
	}

	p.Add(painter(func(area draw.Canvas, p *gonum.Plot) {
		c.drawSpans(area, x)
		for _, t := range y.ticks(6) {
			if t.label != "" || y.log {
				line(area, draw.LineStyle{Color: grid, Width: gridWidth(t)}, 0, y.place(t.at), 1, y.place(t.at))
			}
		}
		if c.Categories != nil {
			c.drawBars(area, x, y)
		} else {
			for _, t := range x.ticks(8) {
				line(area, draw.LineStyle{Color: grid, Width: gridWidth(t)}, x.place(t.at), 0, x.place(t.at), 1)
			}
			c.drawLines(area, x, y)
		}
		c.drawLevels(area, x, y)
		c.drawSpanNames(area, x)
	}))
	return p
}

func (c *Chart) xTicks(x scale) []tick {
	if c.Categories == nil {
		return x.ticks(8)
	}
	var out []tick
	for i, name := range c.Categories {
		out = append(out, tick{float64(i), name})
	}
	return out
}

func gridWidth(t tick) vg.Length {
	if t.label == "" {
		return 0.3
	}
	return 0.7
}

// painter is a gonum plotter that draws with the house's own scales.
type painter func(draw.Canvas, *gonum.Plot)

// Plot implements gonum's Plotter.
func (paint painter) Plot(c draw.Canvas, p *gonum.Plot) { paint(c, p) }

// at returns the point of the data area at a share of its width and height.
func at(area draw.Canvas, x, y float64) vg.Point {
	return vg.Point{X: area.X(x), Y: area.Y(y)}
}

func line(area draw.Canvas, style draw.LineStyle, x0, y0, x1, y1 float64) {
	area.StrokeLines(style, []vg.Point{at(area, x0, y0), at(area, x1, y1)})
}

// look returns the line style of the i-th series. From the eighth on the
// colours repeat, dashed.
func (c *Chart) look(i int) draw.LineStyle {
	l := draw.LineStyle{Color: palette[i%len(palette)], Width: 1.7}
	if c.Series[i].Dashed || i >= len(palette) {
		l.Dashes = []vg.Length{5, 3}
		l.Width = 1.4
	}
	return l
}

// fewPoints is up to how many points of a line are marked: these are
// measurements, and between them nothing is known.
const fewPoints = 30

func (c *Chart) drawLines(area draw.Canvas, x, y scale) {
	// The first series is drawn last: it is the one the chart is about.
	for i, s := range slices.Backward(c.Series) {
		look := c.look(i)
		for _, run := range s.points(x, y) {
			var path []vg.Point
			for _, p := range thin(run) {
				path = append(path, at(area, x.place(p.x), y.place(p.y)))
			}
			area.StrokeLines(look, area.ClipLinesXY(path)...)
			if len(path) > 1 && (s.Dashed || len(s.Y) > fewPoints) {
				continue
			}
			for _, p := range path {
				if area.Contains(p) {
					area.DrawGlyphNoClip(draw.GlyphStyle{Color: look.Color, Radius: 2.4, Shape: draw.CircleGlyph{}}, p)
				}
			}
		}
	}
}

// ends returns the part of the axis that a span covers, as shares.
func (s Span) ends(x scale) (from, to float64, ok bool) {
	if !x.shows(s.From) || !x.shows(s.To) {
		return 0, 0, false
	}
	from, to = max(x.place(s.From), 0), min(x.place(s.To), 1)
	return from, to, from < to
}

func (c *Chart) drawSpans(area draw.Canvas, x scale) {
	for _, span := range c.Spans {
		if from, to, ok := span.ends(x); ok {
			area.FillPolygon(shade, []vg.Point{at(area, from, 0), at(area, from, 1), at(area, to, 1), at(area, to, 0)})
		}
	}
}

func (c *Chart) drawSpanNames(area draw.Canvas, x scale) {
	label := style(8.5, faded, false)
	label.XAlign, label.YAlign = text.XCenter, text.YTop
	for _, span := range c.Spans {
		if from, to, ok := span.ends(x); ok {
			area.FillText(label, at(area, (from+to)/2, 1).Add(vg.Point{Y: -1}), span.Name)
		}
	}
}

func (c *Chart) drawLevels(area draw.Canvas, x, y scale) {
	dashed := draw.LineStyle{Color: ink, Width: 0.9, Dashes: []vg.Length{2, 2.5}}
	for _, level := range c.Levels {
		if level.Vertical {
			if place := x.place(level.At); x.shows(level.At) && place >= 0 && place <= 1 {
				line(area, dashed, place, 0, place, 1)
				label := style(9, ink, false)
				label.YAlign = text.YTop
				offset := vg.Length(4)
				if place > 0.8 {
					label.XAlign, offset = text.XRight, -4
				}
				area.FillText(label, at(area, place, 0.06).Add(vg.Point{X: offset, Y: 4}), level.Name)
			}
		} else if place := y.place(level.At); y.shows(level.At) && place >= 0 && place <= 1 {
			line(area, dashed, 0, place, 1, place)
		}
	}
}
