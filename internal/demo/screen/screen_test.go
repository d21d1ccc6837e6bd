package screen

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/demotest"
	"github.com/spillgate/spillgate/internal/demo/stage"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

const url = "http://127.0.0.1:12345/"

func testLook(profile termenv.Profile) *look {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	return newLook(r)
}

// states are the demo at its different moments.
func states(t testing.TB) map[string]demo.State {
	return map[string]demo.State{
		"nothing":   {},
		"searching": demotest.Searching(t, 7),
		"begun":     demotest.At(t, 0, 0),
		"plain":     demotest.At(t, 0, 13),
		"gated":     demotest.At(t, 1, 9),
		"sharing":   demotest.Sharing(t, 0),
		"burst":     demotest.Sharing(t, 8),
		"fifo":      demotest.Shopping(t, 0, 0),
		"flood":     demotest.Shopping(t, 0, 4),
		"shares":    demotest.Shopping(t, 1, 5),
		"seized":    demotest.Seized(t, 0, 0),
		"held":      demotest.Seized(t, 0, 3),
		"freed":     demotest.Seized(t, 1, 3),
		"calm":      demotest.Flooded(t, 0, 0),
		"flooded":   demotest.Flooded(t, 0, 3),
		"limited":   demotest.Flooded(t, 1, 3),
		"done":      demotest.Recorded(t),
	}
}

// checkSize fails if a drawing is not exactly as high as the terminal, or a line
// is wider than it.
func checkSize(t interface{ Errorf(string, ...any) }, what, drawing string, width, height int) {
	lines := strings.Split(drawing, "\n")
	if len(lines) != height {
		t.Errorf("%s at %dx%d: %d lines", what, width, height, len(lines))
	}
	for i, line := range lines {
		if w := ansi.StringWidth(line); w > width {
			t.Errorf("%s at %dx%d: line %d is %d wide: %q", what, width, height, i, w, ansi.Strip(line))
		}
	}
}

func TestFitsEveryTerminal(t *testing.T) {
	all := states(t)
	looks := []*look{testLook(termenv.ANSI), testLook(termenv.Ascii)}
	for name, s := range all {
		for _, size := range [][2]int{{80, 24}, {200, 50}, {72, 20}, {300, 100}, {40, 10}, {1, 1}} {
			for _, l := range looks {
				checkSize(t, name, l.render(s, url, size[0], size[1]), size[0], size[1])
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"nothing", "searching", "begun", "plain", "gated", "sharing", "burst", "fifo", "flood", "shares", "seized", "held", "freed", "calm", "flooded", "limited", "done"}).Draw(rt, "state")
		width, height := rapid.IntRange(1, 250).Draw(rt, "width"), rapid.IntRange(1, 80).Draw(rt, "height")
		checkSize(rt, name, looks[0].render(all[name], url, width, height), width, height)
	})
}

// At 80 and at 200 columns the figures that matter are readable: none is cut.
func TestShowsTheFigures(t *testing.T) {
	s := demotest.Recorded(t)
	s.Tenants, s.Checkout, s.Culprit, s.Feed = nil, nil, nil, nil
	for _, width := range []int{80, 200} {
		text := ansi.Strip(testLook(termenv.ANSI).render(s, url, width, 24))
		for i := range s.Acts {
			v := figuresOf(&s, &s.Acts[i])
			for _, want := range []string{
				fmt.Sprintf("%.0f/s", v.goodput),
				count(s.Acts[i].Totals.TimedOut),
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%d columns: %q is missing in\n%s", width, want, text)
				}
			}
		}
		for _, want := range []string{url, "seed 7", "SLO 100", "client", "entry", "middle", "store", fmt.Sprintf("recovered in %.2f s", s.Acts[1].Outcome.Recovery)} {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: %q is missing in\n%s", width, want, text)
			}
		}
	}
}

// Each tenant's figures before and during the burst can be read, as they come.
func TestShowsTheTenants(t *testing.T) {
	end := demotest.Recorded(t)
	end.Checkout, end.Culprit, end.Feed = nil, nil, nil
	for _, width := range []int{80, 200} {
		for _, s := range []demo.State{demotest.Sharing(t, 8), end} {
			text := ansi.Strip(testLook(termenv.ANSI).render(s, url, width, 24))
			wants := []string{url, "a, 0.25x", "b, 0.25x", "c, comes with 3x", "before", "during", "SLO 100"}
			for _, tenant := range s.Tenants.Each {
				wants = append(wants, "refused "+count(tenant.Totals.Refused))
				for _, o := range tenant.Steps[:min(len(tenant.Steps), demo.AfterBurst)] {
					if o.Offered > 0 {
						wants = append(wants, fmt.Sprintf("%7.0f", o.Goodput), fmt.Sprintf("%7.0f", o.P99MS))
					}
				}
				for i, shed := range tenant.Sheds() {
					if tenant.Aggressive() && i < tenantReasons {
						wants = append(wants, strings.ReplaceAll(shed.Reason, "_", " ")+" "+count(shed.Count))
					}
				}
			}
			shows(t, fmt.Sprintf("%d columns, %s", width, s.Scene), text, wants)
		}
	}
}

// A tenant of which nothing was served has no p99, which is not shown as a good one.
func TestShowsThatATenantWasNotServed(t *testing.T) {
	s := demotest.Sharing(t, 8)
	points := s.Tenants.Each[0].Points
	points[len(points)-1].P99MS = 0
	l := testLook(termenv.ANSI)
	if text := l.render(s, url, 200, 24); !strings.Contains(text, l.bad.Render("  – ms")) {
		t.Errorf("no bad p99 of a tenant in\n%s", text)
	}
}

// Both orders' figures, the weight and the classes can be read, as they come.
func TestShowsTheCheckouts(t *testing.T) {
	end := demotest.Recorded(t)
	end.Culprit, end.Feed = nil, nil
	for _, width := range []int{80, 200} {
		for _, s := range []demo.State{demotest.Shopping(t, 0, 4), demotest.Shopping(t, 1, 5), end} {
			text := ansi.Strip(testLook(termenv.ANSI).render(s, url, width, 24))
			wants := []string{url, "fifo", "shares", "checkouts", "reads", "none, in order of arrival", "interactive, it goes on", "default, it ends here"}
			if len(s.Checkout.Orders) == 1 {
				wants = append(wants[:6:6], "shares, the same requests, next")
			}
			for i := range s.Checkout.Orders {
				o := &s.Checkout.Orders[i]
				for _, k := range o.Kinds {
					mean, p95 := timesOf(o, k.Name)
					wants = append(wants, fmt.Sprintf("mean %3.0f", mean), fmt.Sprintf("p95 %3.0f ms", p95))
				}
				if w, ok := o.Weight(); ok {
					wants = append(wants, fmt.Sprintf("checkouts %.2f  reads %.2f", w, 1-w))
				} else if i > 0 {
					t.Error("no weight is known")
				}
			}
			if s.Scene == demo.Done {
				wants = append(wants, fmt.Sprintf("checkouts %+.0f%%  reads %+.0f%%", 100*s.Checkout.Change(stage.Checkouts), 100*s.Checkout.Change(stage.Reads)))
			}
			shows(t, fmt.Sprintf("%d columns, %s", width, s.Scene), text, wants)
		}
	}
}

// Both runs' figures, who was cancelled and what became of the report can be read, as
// they come.
func TestShowsTheCulprit(t *testing.T) {
	seized := demotest.Recorded(t)
	seized.Feed = nil
	for _, width := range []int{80, 200} {
		for _, s := range []demo.State{demotest.Seized(t, 0, 3), demotest.Seized(t, 1, 3), seized} {
			text := ansi.Strip(testLook(termenv.ANSI).render(s, url, width, 24))
			wants := []string{url, "SLO 100", "plain", "gated", "no gate"}
			for i := range s.Culprit.Runs {
				r := &s.Culprit.Runs[i]
				v := figuresOfRun(&r.Run, demo.DuringReport)
				wants = append(wants, fmt.Sprintf("goodput %3.0f/s", v.goodput), p99Of(v),
					"timed out  "+count(r.Totals.TimedOut), "cancelled  "+r.Verdict(), "the report "+r.Fate())
			}
			shows(t, fmt.Sprintf("%d columns, %s", width, s.Scene), text, wants)
		}
	}
}

// shows checks that a screen has all of wants, and that nothing below its head is cut.
func shows(t *testing.T, what, text string, wants []string) {
	t.Helper()
	panels := strings.Join(strings.Split(text, "\n")[headLines:], "\n")
	if strings.Contains(panels, "…") {
		t.Errorf("%s: something is cut in\n%s", what, panels)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is missing in\n%s", what, want, text)
		}
	}
}

// p99Of is how a panel writes a p99: there is none where none was served.
func p99Of(v figures) string {
	if v.p99 == 0 && v.offered > 0 {
		return "p99    – ms"
	}
	return fmt.Sprintf("p99 %4.0f ms", v.p99)
}

// Both runs' figures, and what became of the flood, can be read, as they come.
func TestShowsTheFlood(t *testing.T) {
	for _, width := range []int{80, 200} {
		for _, s := range []demo.State{demotest.Flooded(t, 0, 3), demotest.Flooded(t, 1, 3), demotest.Recorded(t)} {
			text := ansi.Strip(testLook(termenv.ANSI).render(s, url, width, 24))
			wants := []string{url, "SLO 100", "plain", "limited"}
			for i := range s.Feed.Runs {
				r := &s.Feed.Runs[i]
				v := figuresOfRun(&r.Run, demo.DuringTopic)
				waiting, dropped := r.Held()
				wants = append(wants, fmt.Sprintf("goodput %3.0f/s", v.goodput), p99Of(v), "given up   "+count(r.Totals.TimedOut),
					"flood sent "+count(r.Flooded.Sent), "flood came "+count(r.Flooded.Came), fmt.Sprintf("%s wait, %s dropped", count(waiting), count(dropped)))
			}
			shows(t, fmt.Sprintf("%d columns, %s", width, s.Scene), text, wants)
		}
	}
}

func TestSmallTerminalStillSaysSomething(t *testing.T) {
	s := demotest.Recorded(t)
	flooded := ansi.Strip(testLook(termenv.ANSI).render(s, "", 60, 10))
	s.Feed = nil
	seized := ansi.Strip(testLook(termenv.ANSI).render(s, "", 60, 10))
	s.Culprit = nil
	shopped := ansi.Strip(testLook(termenv.ANSI).render(s, "", 60, 10))
	s.Checkout = nil
	shared := ansi.Strip(testLook(termenv.ANSI).render(s, "", 60, 10))
	s.Tenants = nil
	text := ansi.Strip(testLook(termenv.ANSI).render(s, "", 60, 10))
	s = demotest.Flooded(t, 0, 4)
	last := &s.Feed.Runs[0].Points[len(s.Feed.Runs[0].Points)-1]
	last.P50MS, last.P99MS = 0, 0
	none := ansi.Strip(testLook(termenv.ANSI).render(s, "", 60, 10))
	for want, text := range map[string]string{"plain: goodput": text, "gated: goodput": text, "a: goodput": shared, "c: goodput": shared, "fifo: checkouts": shopped, "shares: checkouts": shopped, "plain: goodput ": seized, "gated: goodput ": seized, "limited: goodput": flooded, "p99 – ms, flood": none} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// Without colours the layers of a chart are told apart by their letters.
func TestLayersWithoutColours(t *testing.T) {
	l := testLook(termenv.Ascii)
	rows := l.area([]column{{low: 8, high: 24, lowLayer: layerGood, highTop: layerOffered}, {}}, 3, 1, map[int]bool{1: true})
	want := "░┊\n░┄\n█┊"
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// With colours, heights are shown to an eighth of a line.
func TestAreaHeights(t *testing.T) {
	l := testLook(termenv.ANSI)
	for _, test := range []struct {
		c    column
		want string // from the top
	}{
		{column{0, 0, layerGood, layerOffered}, "  "},
		{column{3, 3, layerGood, layerOffered}, " ▃"},
		{column{8, 12, layerGood, layerOffered}, "▄█"},
		{column{3, 16, layerGood, layerOffered}, "█▃"}, // on a ground of the other colour
		{column{16, 16, layerGood, layerOffered}, "██"},
	} {
		rows := l.area([]column{test.c}, 2, -1, nil)
		if got := ansi.Strip(strings.Join(rows, "")); got != test.want {
			t.Errorf("%+v is drawn as %q, want %q", test.c, got, test.want)
		}
	}
}

// Columns stand for time: they come as time passes, each with the points of its
// stretch.
func TestSample(t *testing.T) {
	s := demotest.At(t, 0, demotest.Recorded(t).ActLength/2)
	a := &s.Acts[0]
	if got := len(sample(&s, a, 40)); got != 20 {
		t.Errorf("%d of 40 columns in the middle of the act, want 20", got)
	}
	seen := map[float64]bool{}
	for x, points := range sample(&s, a, 40) {
		for _, p := range points {
			seen[p.T] = true
			if to := s.ActLength * float64(x+1) / 40; p.T > to+1e-6 && x > 0 {
				t.Errorf("column %d, until %.2f s, has the point of %.2f s", x, to, p.T)
			}
		}
	}
	if len(seen) != len(a.Points) {
		t.Errorf("%d of %d points are shown", len(seen), len(a.Points))
	}
	if got := sample(&demo.State{}, &demo.Act{}, 40); got != nil {
		t.Errorf("no points: %d columns", len(got))
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}
