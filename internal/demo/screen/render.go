package screen

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

const (
	// leastWidth and leastHeight are the smallest terminal that gets charts.
	leastWidth, leastHeight = 72, 20
	// fixedLines are those of a panel that are no chart; headLines and footLines
	// are around the panels.
	fixedLines           = 11
	headLines, footLines = 3, 1
	// tallest is the height of a chart at most, in lines.
	tallest = 24
)

// look is the styles on one terminal.
type look struct {
	title, text, faint, good, bad, accent lipgloss.Style
	// charts maps the layers of a chart to their colours.
	charts [layers]lipgloss.Color
	r      *lipgloss.Renderer
	// mono is set where there are no colours, so that layers need letters.
	mono bool
}

func newLook(r *lipgloss.Renderer) *look {
	plain := r.NewStyle()
	return &look{
		title:  plain.Bold(true),
		text:   plain,
		faint:  plain.Faint(true),
		good:   plain.Foreground(lipgloss.Color("2")),
		bad:    plain.Foreground(lipgloss.Color("1")),
		accent: plain.Foreground(lipgloss.Color("6")),
		charts: [layers]lipgloss.Color{layerOffered: "8", layerGood: "2", layerP50: "6", layerP99: "4", layerLate: "1", layerRule: "8"},
		r:      r,
		mono:   r.ColorProfile().Name() == "Ascii",
	}
}

// render draws s on a terminal of the given size.
func (l *look) render(s demo.State, url string, width, height int) string {
	lines := l.head(s, width)
	if width < leastWidth || height < leastHeight {
		lines = append(lines, l.small(s)...)
	} else {
		lines = append(lines, l.body(s, width, height-headLines-footLines)...)
	}
	for len(lines) < height-footLines {
		lines = append(lines, "")
	}
	lines = append(lines[:max(height-footLines, 0)], l.foot(url, width))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	return strings.Join(lines, "\n")
}

func (l *look) head(s demo.State, width int) []string {
	left := l.title.Render("spillgate demo")
	clock := fmt.Sprintf("%d:%02d", int(s.Elapsed)/60, int(s.Elapsed)%60)
	right := l.faint.Render(fmt.Sprintf("seed %d · SLO %.0f ms · ", s.Seed, s.SLOMS)) + clock
	note := s.Note
	if a := running(&s); a != nil {
		step := s.Steps[s.Step(a.Elapsed)]
		note = l.accent.Render(fmt.Sprintf("%s of %.0f/s", step.Name, s.Capacity.Rate)) + "  " + note
	}
	if a := s.Tenants; a != nil && a.Running && len(a.Steps) > 0 {
		note = l.accent.Render(a.Steps[a.Step(a.Elapsed)].Name) + "  " + note
	}
	if r := s.Culprit.Running(); r != nil && len(s.Culprit.Steps) > 0 {
		note = l.accent.Render(s.Culprit.Steps[s.Culprit.Step(r.Elapsed)].Name) + "  " + note
	}
	if r := s.Feed.Running(); r != nil && len(s.Feed.Steps) > 0 {
		note = l.accent.Render(s.Feed.Steps[s.Feed.Step(r.Elapsed)].Name) + "  " + note
	}
	if o := s.Checkout.Running(); o != nil && len(s.Checkout.Steps) > 0 {
		note = l.accent.Render(s.Checkout.Steps[s.Checkout.Step(o.Elapsed)].Name) + "  " + note
	}
	return []string{" " + spread(left, right, width-2), " " + l.bar(s.Share, width-2), " " + ansi.Truncate(note, width-2, "…")}
}

// bar shows a share of a whole.
func (l *look) bar(share float64, width int) string {
	width = max(width-5, 0)
	full := int(math.Round(min(max(share, 0), 1) * float64(width)))
	return l.accent.Render(strings.Repeat("━", full)) + l.faint.Render(strings.Repeat("─", width-full)) + fmt.Sprintf(" %3.0f%%", 100*share)
}

func (l *look) foot(url string, width int) string {
	left := ""
	if url != "" {
		left = l.faint.Render("live page ") + url
	}
	return " " + spread(left, l.faint.Render("ctrl-c ends it"), width-2)
}

// running returns the act that is played, nil between acts.
func running(s *demo.State) *demo.Act {
	for i := range s.Acts {
		if s.Acts[i].Running {
			return &s.Acts[i]
		}
	}
	return nil
}

// small is the view on a terminal that is too small for charts.
func (l *look) small(s demo.State) []string {
	var out []string
	if a := s.Feed; a != nil {
		for i := range a.Runs {
			r := &a.Runs[i]
			v := figuresOfRun(&r.Run, demo.DuringTopic)
			out = append(out, fmt.Sprintf(" %s: goodput %.0f of %.0f/s", r.Name, v.goodput, v.offered), fmt.Sprintf("   p99 %s ms, flood %s", v.took(v.p99), count(r.Flooded.Sent)))
		}
		return out
	}
	if a := s.Culprit; a != nil {
		for i := range a.Runs {
			r := &a.Runs[i]
			v := figuresOfRun(&r.Run, demo.DuringReport)
			out = append(out, fmt.Sprintf(" %s: goodput %.0f of %.0f/s", r.Name, v.goodput, v.offered), "   cancelled "+r.Verdict())
		}
		return out
	}
	if a := s.Checkout; a != nil {
		for i := range a.Orders {
			o := &a.Orders[i]
			c, c95 := timesOf(o, stage.Checkouts)
			r, r95 := timesOf(o, stage.Reads)
			out = append(out, fmt.Sprintf(" %s: checkouts %.0f ms, p95 %.0f", o.Name, c, c95), fmt.Sprintf("   reads %.0f ms, p95 %.0f", r, r95))
		}
		return out
	}
	if a := s.Tenants; a != nil {
		for i := range a.Each {
			t := &a.Each[i]
			p := t.Last()
			out = append(out, fmt.Sprintf(" %s: goodput %.0f of %.0f/s", t.Name, p.Goodput, p.Offered),
				fmt.Sprintf("   p99 %s ms, refused %s", figures{offered: p.Offered, p99: p.P99MS}.took(p.P99MS), count(t.Totals.Refused)))
		}
		return out
	}
	for i := range s.Acts {
		a := &s.Acts[i]
		v := figuresOf(&s, a)
		out = append(out, fmt.Sprintf(" %s: goodput %.0f of %.0f/s", a.Name, v.goodput, v.offered),
			fmt.Sprintf("   p50 %s p99 %s ms, refused %s", v.took(v.p50), v.took(v.p99), count(a.Totals.Refused)))
	}
	return out
}

// body draws the search, then the first act, then both, then the tenants, then the
// checkouts, then the culprit, and then the broker.
func (l *look) body(s demo.State, width, height int) []string {
	if s.Feed != nil && len(s.Feed.Runs) > 0 && len(s.Feed.Steps) > 0 {
		return l.floods(&s, width, height)
	}
	if s.Culprit != nil && len(s.Culprit.Runs) > 0 && len(s.Culprit.Steps) > 0 {
		return l.seized(&s, width, height)
	}
	if s.Checkout != nil && len(s.Checkout.Orders) > 0 && len(s.Checkout.Steps) > 0 {
		return l.orders(&s, width, height)
	}
	if s.Tenants != nil && len(s.Tenants.Each) > 0 {
		return l.tenants(&s, width, height)
	}
	switch len(s.Acts) {
	case 0:
		return l.search(&s, width, height)
	case 1:
		return l.panel(&s, &s.Acts[0], width, height)
	}
	half := width / 2
	left, right := l.panel(&s, &s.Acts[0], half, height), l.panel(&s, &s.Acts[1], width-half, height)
	out := make([]string, max(len(left), len(right)))
	for i := range out {
		out[i] = left[i] + right[i]
	}
	return out
}

// search draws the tries of the search for the capacity.
func (l *look) search(s *demo.State, width, height int) []string {
	most := 1.0
	for _, t := range s.Capacity.Tries {
		most = max(most, t.Goodput)
	}
	inside := width - 4
	rows := []string{
		"entry → middle → store, three processes, calling each other over gRPC",
		l.faint.Render(fmt.Sprintf("%d connections; an answer counts if it comes within %.0f ms", s.Conns, s.SLOMS)), "",
	}
	for _, t := range s.Capacity.Tries {
		name := fmt.Sprintf("%3d in flight", t.InFlight)
		if t.InFlight == 0 {
			name = fmt.Sprintf("open, %4.0f/s ", t.Load)
		}
		p99 := "none"
		if t.P99MS > 0 {
			p99 = fmt.Sprintf("%4.0f ms", t.P99MS)
		}
		figures := fmt.Sprintf("%5.0f/s  p99 %-7s", t.Goodput, p99)
		room := max(inside-lipgloss.Width(name)-lipgloss.Width(figures)-4, 1)
		bar := strings.Repeat("█", int(math.Round(t.Goodput/most*float64(room))))
		rows = append(rows, name+"  "+l.good.Render(bar)+strings.Repeat(" ", room-lipgloss.Width(bar))+"  "+figures)
	}
	if keep := height - 2; len(rows) > keep {
		rows = append(rows[:3:3], rows[len(rows)-keep+3:]...)
	}
	return l.box("the capacity of three plain services", rows, width, min(height, 20))
}

// box draws a border around rows, exactly width wide and height high.
func (l *look) box(title string, rows []string, width, height int) []string {
	inside := width - 4
	title = ansi.Truncate(title, inside-2, "…")
	out := []string{l.faint.Render("╭─ ") + l.title.Render(title) + l.faint.Render(" "+strings.Repeat("─", max(width-5-lipgloss.Width(title), 0))+"╮")}
	for i := range height - 2 {
		row := ""
		if i < len(rows) {
			row = ansi.Truncate(rows[i], inside, "…")
		}
		out = append(out, l.faint.Render("│ ")+row+strings.Repeat(" ", max(inside-lipgloss.Width(row), 0))+l.faint.Render(" │"))
	}
	return append(out, l.faint.Render("╰"+strings.Repeat("─", width-2)+"╯"))
}

// spread puts two texts at the ends of a line; the left one gives way.
func spread(left, right string, width int) string {
	room := width - lipgloss.Width(right)
	if room < 1 {
		return ansi.Truncate(right, width, "…")
	}
	left = ansi.Truncate(left, room-1, "…")
	return left + strings.Repeat(" ", room-lipgloss.Width(left)) + right
}

// count writes a number with commas between thousands.
func count(n uint64) string {
	digits := fmt.Sprint(n)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}
