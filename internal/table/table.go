// Package table decides how rows of results look: aligned text for a terminal,
// JSON for a program.
//
//	policy      goodput   p99  verdict
//	            of cap.    µs
//	──────────────────────────────────
//	breakwater    0.971   187  ok
//	seda          0.802  1430  falls short: p99 above 200
//
// Invariants: numbers are right-aligned and never broken over lines; a table
// becomes narrower, down to 80 columns or the terminal's width, by wrapping its
// headings and then its widest text; colour appears on a terminal only, never
// with NO_COLOR set, and never carries what the text does not say.
//
// What this package does not do: it sorts nothing and computes nothing. A table
// is not safe for concurrent use.
package table

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Table is a heading and rows. The zero value is an empty table without columns.
type Table struct {
	Title   string // one line above; may be empty
	Columns []Column
	Note    string // below the rows; may be empty

	rows [][]Cell
}

// Column describes the cells below one heading.
type Column struct {
	Name string
	// Unit stands below the name, and becomes part of the JSON key.
	Unit string
	// Format is the fmt verb for floating-point cells, such as "%.2f", so that
	// their points align. Default: three significant digits.
	Format string
}

// Cell is one value and how it looks.
type Cell struct {
	// Value is a string, a number, a bool, a time.Duration, nil for nothing, or
	// anything fmt can print.
	Value any
	Mark  Mark
}

// Mark sets a cell apart by colour.
type Mark uint8

// The marks.
const (
	Plain Mark = iota
	Good       // within its bar
	Bad        // falls short
	Faint      // context, such as a published figure beside a measured one
)

// Add appends a row: a [Cell], or a bare value, for each column. Missing cells
// are empty; it panics when there are more cells than columns, which is a
// mistake in the program and not in its input.
func (t *Table) Add(values ...any) {
	if len(values) > len(t.Columns) {
		panic(fmt.Sprintf("table: %d cells in a row of %d columns: %v", len(values), len(t.Columns), values))
	}
	row := make([]Cell, len(t.Columns))
	for i, value := range values {
		cell, ok := value.(Cell)
		if !ok {
			cell = Cell{Value: value}
		}
		row[i] = cell
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Cell returns the text and mark of one cell, as they are printed.
func (t *Table) Cell(row, column int) (text string, mark Mark) {
	cell := t.rows[row][column]
	return t.Columns[column].text(cell.Value), cell.Mark
}

// Numeric reports whether a column holds numbers and durations alone, and so is
// right-aligned. A column of nothing is not numeric.
func (t *Table) Numeric(column int) bool {
	numbers := 0
	for _, row := range t.rows {
		switch row[column].Value.(type) {
		case nil:
		case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Duration:
			numbers++
		default:
			return false
		}
	}
	return numbers > 0
}

// text formats one value of the column.
func (c Column) text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case float32:
		return c.float(float64(v))
	case float64:
		return c.float(v)
	case time.Duration:
		return duration(v)
	}
	return fmt.Sprint(value)
}

// float formats v by the column's verb, or with three significant digits and no
// exponent. What is not a number is a dash.
func (c Column) float(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 0):
		return map[bool]string{true: "∞", false: "-∞"}[v > 0]
	case c.Format != "":
		return fmt.Sprintf(c.Format, v)
	case v == 0:
		return "0"
	}
	// 0.000123 needs six digits after the point, 12.3 one, 1230 none.
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(max(digits, 0), 9), 64)
}

// duration rounds d to three significant digits.
func duration(d time.Duration) string {
	unit := time.Duration(1)
	for abs := d.Abs(); abs/unit >= 1000; {
		unit *= 10
	}
	return d.Round(unit).String()
}
