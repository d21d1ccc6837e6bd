package plot

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spillgate/spillgate/internal/table"
)

// Report collects what a run has to show, in the order of the calls, and writes
// it as one HTML page that needs no other file.
type Report struct {
	Title string
	Run   Run

	parts []part
}

// part is one piece of a report; one of its fields is set.
type part struct {
	Heading string
	Text    string
	Table   *table.Table
	Chart   *Chart
	SVG     template.HTML
	File    string // of the chart's PNG; its SVG beside it has the same name
}

// Section begins a section.
func (r *Report) Section(heading string) { r.parts = append(r.parts, part{Heading: heading}) }

// Text adds paragraphs, separated by empty lines.
func (r *Report) Text(text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
			r.parts = append(r.parts, part{Text: paragraph})
		}
	}
}

// Chart adds a picture. It is drawn by [Report.Write].
func (r *Report) Chart(c *Chart) { r.parts = append(r.parts, part{Chart: c}) }

// Table adds a table.
func (r *Report) Table(t *table.Table) { r.parts = append(r.parts, part{Table: t}) }

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"cells": cells,
	"align": func(t *table.Table, column int) string {
		if t.Numeric(column) {
			return "number"
		}
		return "text"
	},
}).Parse(page))

// cell is one cell of a table on the page.
type cell struct{ Text, Class string }

// cells returns the rows of a table as they are printed.
func cells(t *table.Table) [][]cell {
	class := map[table.Mark]string{table.Good: " good", table.Bad: " bad", table.Faint: " faint"}
	rows := make([][]cell, t.Len())
	for r := range rows {
		for c := range t.Columns {
			align := "text"
			if t.Numeric(c) {
				align = "number"
			}
			text, mark := t.Cell(r, c)
			rows[r] = append(rows[r], cell{text, align + class[mark]})
		}
	}
	return rows
}

// Prepare creates dir if it is missing, and returns an error if no report can be written into it, which is better known
// before a long run than after it.
func Prepare(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(dir, ".writable"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("report: %q: %w, expected a directory that can be written", dir, err)
	}
	return nil
}

// Write creates dir if it is missing, writes index.html and, for each chart, a PNG and
// an SVG into it, and returns the path of the page. Files of the same names are
// replaced; others are left alone.
func (r *Report) Write(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	used := map[string]int{}
	for i := range r.parts {
		p := &r.parts[i]
		if p.Chart == nil {
			continue
		}
		base := fileName(p.Chart.Title)
		if used[base]++; used[base] > 1 {
			base = fmt.Sprintf("%s-%d", base, used[base])
		}
		p.File = base + ".png"
		var svg, png bytes.Buffer
		if err := p.Chart.SVG(&svg); err != nil {
			return "", fmt.Errorf("chart %q: %w", p.Chart.Title, err)
		}
		if err := p.Chart.PNG(&png); err != nil {
			return "", fmt.Errorf("chart %q: %w", p.Chart.Title, err)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, p.File), png.Bytes(), 0o644),
			os.WriteFile(filepath.Join(dir, base+".svg"), svg.Bytes(), 0o644)); err != nil {
			return "", err
		}
		// The XML declaration has no place inside HTML. All text of the drawing
		// is escaped by the canvas that made it.
		_, drawing, _ := bytes.Cut(svg.Bytes(), []byte("<svg"))
		p.SVG = template.HTML("<svg" + string(drawing)) //nolint:gosec // see above
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, map[string]any{"Title": r.Title, "Run": r.Run, "Parts": r.parts}); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "index.html")
	return path, os.WriteFile(path, out.Bytes(), 0o644)
}

// fileName turns a title into lower-case words joined by hyphens, at most 60
// bytes of letters and digits.
func fileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	name := strings.Join(words, "-")
	if len(name) > 60 {
		name = strings.TrimRight(name[:60], "-")
	}
	if name == "" {
		return "chart"
	}
	return name
}
