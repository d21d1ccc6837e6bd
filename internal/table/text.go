package table

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

const (
	// defaultWidth is what a table fits into where no terminal says otherwise.
	defaultWidth = 80
	// narrowest is how far wrapping narrows a column of text: below about this
	// many letters a line holds hardly a word.
	narrowest = 12
	// gap separates columns.
	gap = 2
)

// Print writes the table to w: as wide as the terminal that w is, else 80
// columns, and wider if it cannot be helped. Colour is used when w is a terminal
// and NO_COLOR is not set.
func (t *Table) Print(w io.Writer) error {
	width := defaultWidth
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			width = columns
		}
	}
	_, err := io.WriteString(w, t.render(lipgloss.NewRenderer(w), width))
	return err
}

// Text returns the table without colour, fitted into width columns where that
// is possible.
func (t *Table) Text(width int) string {
	return t.render(lipgloss.NewRenderer(io.Discard), width)
}

func (t *Table) render(r *lipgloss.Renderer, width int) string {
	headings, rows := t.layout(width)
	plain := r.NewStyle()
	look := map[Mark]lipgloss.Style{
		Plain: plain,
		Good:  plain.Foreground(lipgloss.Color("2")),
		Bad:   plain.Foreground(lipgloss.Color("1")).Bold(true),
		Faint: plain.Faint(true),
	}
	widths := make([]int, len(t.Columns))
	for c := range widths {
		widths[c] = columnWidth(headings, rows, c)
	}
	// line lays one row out; a cell of several lines makes the row as high.
	line := func(texts []string, style func(column int) lipgloss.Style) string {
		cells := make([]string, len(texts))
		for c, text := range texts {
			s := style(c).Width(widths[c])
			if t.Numeric(c) {
				s = s.Align(lipgloss.Right)
			}
			if c > 0 {
				s = s.Width(widths[c] + gap).PaddingLeft(gap)
			}
			cells[c] = s.Render(text)
		}
		return trimLines(lipgloss.JoinHorizontal(lipgloss.Top, cells...))
	}

	var out strings.Builder
	if t.Title != "" {
		out.WriteString(trimLines(plain.Bold(true).Render(ansi.Wrap(t.Title, width, ""))) + "\n")
	}
	if len(t.Columns) > 0 {
		total := gap * (len(widths) - 1)
		for _, w := range widths {
			total += w
		}
		out.WriteString(line(headings, func(int) lipgloss.Style { return plain.Bold(true) }))
		out.WriteString(plain.Faint(true).Render(strings.Repeat("─", total)) + "\n")
	}
	for r := range rows {
		out.WriteString(line(rows[r], func(c int) lipgloss.Style { return look[t.rows[r][c].Mark] }))
	}
	if t.Note != "" {
		out.WriteString("\n" + ansi.Wrap(t.Note, width, "") + "\n")
	}
	return out.String()
}

// trimLines removes spaces at the ends of lines and ends the last one.
func trimLines(text string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}

// layout returns the texts of headings and cells, with line breaks where that
// makes the table fit.
func (t *Table) layout(width int) (headings []string, rows [][]string) {
	headings = make([]string, len(t.Columns))
	for i, c := range t.Columns {
		headings[i] = strings.TrimSuffix(c.Name+"\n"+c.Unit, "\n")
	}
	rows = make([][]string, len(t.rows))
	for r := range t.rows {
		rows[r] = make([]string, len(t.Columns))
		for c := range t.Columns {
			rows[r][c], _ = t.Cell(r, c)
		}
	}
	excess := func() int {
		total := gap * (len(t.Columns) - 1)
		for c := range t.Columns {
			total += columnWidth(headings, rows, c)
		}
		return total - width
	}

	if excess() > 0 { // first the headings, down to the widest cell or word
		for c := range headings {
			widest := 0
			for _, word := range strings.Fields(headings[c]) {
				widest = max(widest, lipgloss.Width(word))
			}
			headings[c] = ansi.Wrap(headings[c], max(widest, columnWidth(nil, rows, c)), "")
		}
	}
	for excess() > 0 { // then the widest text, again and again
		widest, at := narrowest, -1
		for c := range t.Columns {
			if w := columnWidth(nil, rows, c); w > widest && !t.Numeric(c) {
				widest, at = w, c
			}
		}
		if at < 0 {
			break
		}
		limit := max(narrowest, widest-excess())
		for r := range rows {
			rows[r][at] = ansi.Wrap(rows[r][at], limit, "/")
		}
		headings[at] = ansi.Wrap(headings[at], limit, "")
	}
	return headings, rows
}

// columnWidth returns how many terminal cells the widest line of a column takes.
func columnWidth(headings []string, rows [][]string, column int) int {
	widest := 0
	if headings != nil {
		widest = lipgloss.Width(headings[column])
	}
	for _, row := range rows {
		widest = max(widest, lipgloss.Width(row[column]))
	}
	return widest
}
