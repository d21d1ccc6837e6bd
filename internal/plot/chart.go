// Package plot decides how results are drawn, in one style everywhere.
//
//	Chart ──┬── SVG, PNG   for the report, over gonum/plot
//	        └── Text       for terminals and for expected output in tests
//	Report ── charts, tables, the command, seed, commit, machine
//	        └── one self-contained index.html, and the charts as PNG and SVG beside it
//
// The style: colours that colour-blind readers tell apart, names at the ends of
// the lines instead of a legend to look up, the unit on every axis, a light
// grid, a linear vertical axis that starts at zero, objectives as dashed levels.
//
// Invariants: the same chart gives the same bytes. Values that are not finite,
// or not positive on a logarithmic axis, are gaps and never an error.
//
// What this package does not do: it computes no statistics and scales no units.
// Nothing here is safe for concurrent use.
package plot

import (
	"slices"
	"strings"
	"unicode"
)

// Chart is one picture. The zero value is an empty one.
type Chart struct {
	Title string
	X, Y  Axis
	// Series are drawn as lines, or, if Categories is set, as bars.
	Series []Series
	// Categories makes a bar chart: one group for each, in which every series
	// has the bar Y[i]. The X values and the X scale are not used.
	Categories []string
	Levels     []Level
	Spans      []Span
}

// Axis describes one direction.
type Axis struct {
	Label string // what is shown: "goodput"
	Unit  string // of the values as they are given: "requests/s"
	Log   bool
	// Min and Max fix the ends; 0 means from the data.
	Min, Max float64
}

// Series is one line, or the bars of one colour.
type Series struct {
	Name string // shown where the line ends; may be empty
	X, Y []float64
	// Dashed draws a reference, such as a published curve or an ideal.
	Dashed bool
}

// Level is a value to compare with, such as an objective.
type Level struct {
	Name string // "SLO 200 µs"
	At   float64
	// Vertical puts it at a value of X; default a value of Y.
	Vertical bool
}

// Span shades a part of the X axis, such as the time of an overload.
type Span struct {
	Name     string
	From, To float64
}

// clean returns the chart with texts that every form can show: on one line, and
// without what is no character.
func (c *Chart) clean() *Chart {
	text := func(s string) string {
		return strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, s)
	}
	out := *c
	out.Title = text(c.Title)
	for _, axis := range []*Axis{&out.X, &out.Y} {
		axis.Label, axis.Unit = text(axis.Label), text(axis.Unit)
	}
	out.Series, out.Levels, out.Spans = slices.Clone(c.Series), slices.Clone(c.Levels), slices.Clone(c.Spans)
	out.Categories = slices.Clone(c.Categories)
	for i := range out.Series {
		out.Series[i].Name = text(out.Series[i].Name)
	}
	for i := range out.Levels {
		out.Levels[i].Name = text(out.Levels[i].Name)
	}
	for i := range out.Spans {
		out.Spans[i].Name = text(out.Spans[i].Name)
	}
	for i := range out.Categories {
		out.Categories[i] = text(out.Categories[i])
	}
	return &out
}

// points returns the drawable stretches of a series: runs of finite values that
// the scales can show. A series without X counts from 0.
func (s Series) points(x, y scale) [][]point {
	var runs [][]point
	var run []point
	for i, v := range s.Y {
		at := float64(i)
		if s.X != nil {
			if i >= len(s.X) {
				break
			}
			at = s.X[i]
		}
		if x.shows(at) && y.shows(v) {
			run = append(run, point{at, v})
		} else if len(run) > 0 {
			runs, run = append(runs, run), nil
		}
	}
	if len(run) > 0 {
		runs = append(runs, run)
	}
	return runs
}

// point is one value of a series.
type point struct{ x, y float64 }

// maxPoints bounds a line: about two points for each pixel of the width.
const maxPoints = 2000

// thin returns at most about maxPoints points of a run, the smallest and the
// largest of each stretch, so that no peak disappears.
func thin(run []point) []point {
	if len(run) <= maxPoints {
		return run
	}
	const stretches = maxPoints / 2
	out := make([]point, 0, maxPoints)
	for i := range stretches {
		part := run[i*len(run)/stretches : (i+1)*len(run)/stretches]
		low, high := 0, 0
		for j, p := range part {
			if p.y < part[low].y {
				low = j
			}
			if p.y > part[high].y {
				high = j
			}
		}
		out = append(out, part[min(low, high)])
		if low != high {
			out = append(out, part[max(low, high)])
		}
	}
	return out
}
