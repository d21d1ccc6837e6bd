package plot

import (
	"math"
	"strconv"
	"strings"
)

// scale maps the values of one axis to [0, 1].
type scale struct {
	min, max float64
	log      bool
}

// huge bounds what can be shown: far above any measurement, and far enough below
// the largest float that no difference or ratio overflows.
const huge = 1e100

// shows reports whether v can have a place on the axis, inside its ends or not.
func (s scale) shows(v float64) bool {
	if s.log {
		return v >= 1/huge && v <= huge
	}
	return v >= -huge && v <= huge
}

// wide reports whether the ends are far enough apart to place ticks between.
func (s scale) wide() bool {
	if s.log {
		return s.max/s.min > 1+1e-9
	}
	return s.max-s.min > max(1/huge, 1e-9*math.Abs(s.min), 1e-9*math.Abs(s.max))
}

// place returns where v lies, 0 at the lower end and 1 at the upper.
func (s scale) place(v float64) float64 {
	if s.log {
		return math.Log(v/s.min) / math.Log(s.max/s.min)
	}
	return (v - s.min) / (s.max - s.min)
}

// scales returns the chart's axes, wide enough for every series, level and span.
func (c *Chart) scales() (x, y scale) {
	x, y = scale{log: c.X.Log}, scale{log: c.Y.Log}
	var xs, ys []float64
	for _, s := range c.Series {
		if c.Categories != nil {
			s.X = nil
		}
		for _, run := range s.points(x, y) {
			for _, p := range run {
				xs, ys = append(xs, p.x), append(ys, p.y)
			}
		}
	}
	for _, level := range c.Levels {
		if level.Vertical {
			xs = append(xs, level.At)
		} else {
			ys = append(ys, level.At)
		}
	}
	for _, span := range c.Spans {
		xs = append(xs, span.From, span.To)
	}
	x.fit(c.X, xs, false)
	y.fit(c.Y, ys, true)
	if c.Categories != nil {
		if y.log && c.Y.Min <= 0 { // bars need a foot below the smallest
			y.min = math.Pow(10, math.Ceil(math.Log10(y.min)-1))
		}
		x = scale{min: -0.5, max: max(float64(len(c.Categories)), 1) - 0.5}
	}
	return x, y
}

// fit sets the ends from the axis and the data. A vertical axis has headroom,
// and zero at its foot unless that is logarithmic or below.
func (s *scale) fit(axis Axis, data []float64, vertical bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range data {
		if s.shows(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high { // nothing to see
		low, high = 1, 10
		if !s.log {
			low, high = 0, 1
		}
	}
	switch {
	case s.log:
		if high/low < 1.01 {
			low, high = low/2, high*2
		}
		if vertical {
			low, high = low/1.15, high*1.15
		}
	case vertical:
		span := high - min(low, 0)
		if low >= 0 {
			low = 0
		} else {
			low -= 0.05 * span
		}
		high += 0.06 * span
	}
	if s.min, s.max = low, high; !s.wide() {
		apart := max(0.5, math.Abs(low)*1e-6)
		low, high = low-apart, high+apart
		s.min, s.max = low, high
	}
	if axis.Min != 0 && s.shows(axis.Min) {
		s.min = axis.Min
	}
	if axis.Max != 0 && s.shows(axis.Max) {
		s.max = axis.Max
	}
	if !s.wide() { // the axis asks for the impossible; show the data
		s.min, s.max = low, high
	}
}

// tick is a place on an axis; a minor one has no label.
type tick struct {
	at    float64
	label string
}

// ticks returns about n labelled ticks, at multiples of 1, 2 or 5 times a power
// of ten, and minor ones between those of a logarithmic axis.
func (s scale) ticks(n int) []tick {
	if s.log {
		return s.logTicks(n)
	}
	step := math.Pow(10, math.Floor(math.Log10((s.max-s.min)/float64(n))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (s.max-s.min)/(step*factor) <= float64(n) {
			step *= factor
			break
		}
	}
	var out []tick
	for i := math.Ceil(s.min/step - 1e-9); i*step <= s.max+step*1e-9; i++ {
		out = append(out, tick{i * step, number(i*step, step)})
	}
	return out
}

func (s scale) logTicks(n int) []tick {
	decades := math.Log10(s.max / s.min)
	every := int(math.Ceil(decades / float64(n))) // label each, or each second, … power of ten
	var out []tick
	for e := int(math.Floor(math.Log10(s.min))); float64(e) <= math.Log10(s.max)+1e-9; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < s.min*(1-1e-9) || v > s.max*(1+1e-9) {
				continue
			}
			label := ""
			switch {
			case m == 1 && e%every == 0,
				(m == 2 || m == 5) && decades*3 <= float64(n),
				decades < 0.6:
				label = number(v, v)
			}
			if m == 1 || every == 1 {
				out = append(out, tick{v, label})
			}
		}
	}
	return out
}

// number formats v with the digits that a step of the given size needs, and
// with k, M, G from ten thousand on. What is very large or very small has an
// exponent.
func number(v, step float64) string {
	if math.Abs(v) < step*1e-9 {
		return "0"
	}
	if math.Abs(v) >= 1e12 || step < 1e-9 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	suffix := ""
	for _, unit := range []struct {
		size   float64
		suffix string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size*(1-1e-9) && math.Abs(v) >= 1e4*(1-1e-9) {
			v, step, suffix = v/unit.size, step/unit.size, unit.suffix
			break
		}
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	text := strconv.FormatFloat(v, 'f', min(digits, 12), 64)
	if strings.Contains(text, ".") && suffix != "" {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + suffix
}

// short formats a value on its own, with at most three
// significant digits.
func short(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	text := number(v, math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2))
	digits := strings.TrimRight(text, "kMG")
	if strings.Contains(digits, ".") {
		return strings.TrimRight(strings.TrimRight(digits, "0"), ".") + text[len(digits):]
	}
	return text
}

// title returns the axis' label with its unit.
func (a Axis) title() string {
	if a.Unit == "" {
		return a.Label
	}
	return strings.TrimPrefix(a.Label+", "+a.Unit, ", ")
}
