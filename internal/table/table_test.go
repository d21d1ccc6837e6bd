package table

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

func sample() *Table {
	t := &Table{
		Title: "breakwater/load, 1,000 clients, seed 1",
		Columns: []Column{{Name: "policy"}, {Name: "goodput of capacity", Format: "%.3f"}, {Name: "p99", Unit: "µs"},
			{Name: "served"}, {Name: "wait"}, {Name: "verdict"}},
		Note: "Goodput counts responses within the objective.",
	}
	t.Add("breakwater", 0.9714, 187.4, 12345, 80*time.Microsecond, Cell{"ok", Good})
	t.Add("seda", 0.8, math.Inf(1), 7, 1234567*time.Nanosecond, Cell{"falls short: the p99 of served requests is above 200 µs", Bad})
	t.Add("published", Cell{0.95, Faint}, math.NaN())
	return t
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{
		// All on one line each when there is room.
		{120, `
breakwater/load, 1,000 clients, seed 1

policy      goodput of capacity  p99  served    wait  verdict
                                  µs
─────────────────────────────────────────────────────────────────────────────────────────────────────────────
breakwater                0.971  187   12345    80µs  ok
seda                      0.800    ∞       7  1.23ms  falls short: the p99 of served requests is above 200 µs
published                 0.950    –

Goodput counts responses within the objective.
`},
		// Then the headings give way, then the widest text.
		{80, `
breakwater/load, 1,000 clients, seed 1

policy       goodput  p99  served    wait  verdict
                  of   µs
            capacity
─────────────────────────────────────────────────────────────────────────
breakwater     0.971  187   12345    80µs  ok
seda           0.800    ∞       7  1.23ms  falls short: the p99 of served
                                           requests is above 200 µs
published      0.950    –

Goodput counts responses within the objective.
`},
		// Too narrow for the numbers: they stay whole.
		{20, `
breakwater/load,
1,000 clients, seed
1

policy       goodput  p99  served    wait  verdict
                  of   µs
            capacity
───────────────────────────────────────────────────────
breakwater     0.971  187   12345    80µs  ok
seda           0.800    ∞       7  1.23ms  falls short:
                                           the p99 of
                                           served
                                           requests is
                                           above 200 µs
published      0.950    –

Goodput counts
responses within the
objective.
`},
	} {
		if got := "\n" + sample().Text(test.width); got != test.want {
			t.Errorf("width %d: got\n%s\nwant\n%s", test.width, got, test.want)
		}
	}
}

func TestTextIsAsNarrowAsItCanBe(t *testing.T) {
	for _, width := range []int{60, 70, 80, 100} {
		for line := range strings.Lines(sample().Text(width)) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("width %d: a line of %d: %q", width, w, line)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	if got, want := (&Table{Columns: []Column{{Name: "a"}, {Name: "b"}}}).Text(80), "a  b\n────\n"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	if got := (&Table{}).Text(80); strings.TrimSpace(got) != "" {
		t.Errorf("Text without columns = %q", got)
	}
}

func TestColour(t *testing.T) {
	r := lipgloss.NewRenderer(os.Stdout)
	r.SetColorProfile(termenv.ANSI)
	if got := sample().render(r, 80); !strings.Contains(got, "\x1b[32mok") {
		t.Errorf("no green ok in %q", got)
	}
	// A buffer is no terminal, and NO_COLOR wins over a request for colour.
	var plain bytes.Buffer
	t.Setenv("NO_COLOR", "1")
	t.Setenv("CLICOLOR_FORCE", "1")
	if err := sample().Print(&plain); err != nil || strings.Contains(plain.String(), "\x1b") {
		t.Errorf("Print: %v, %q", err, plain.String())
	}
	if got := plain.String(); got != sample().Text(80) {
		t.Errorf("Print to a buffer differs from Text(80): %q", got)
	}
}

func TestJSON(t *testing.T) {
	got, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"policy":"breakwater","goodput_of_capacity":0.9714,"p99_us":187.4,"served":12345,"wait":0.00008,"verdict":"ok"},` +
		`{"policy":"seda","goodput_of_capacity":0.8,"p99_us":null,"served":7,"wait":0.001234567,"verdict":"falls short: the p99 of served requests is above 200 µs"},` +
		`{"policy":"published","goodput_of_capacity":0.95,"p99_us":null,"served":null,"wait":null,"verdict":null}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, err := json.Marshal(&Table{}); err != nil || string(got) != "[]" {
		t.Errorf("empty: %s, %v", got, err)
	}
}

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		column Column
		want   string
	}{
		{Column{Name: "Offered", Unit: "1/s"}, "offered_1_per_s"},
		{Column{Name: "shed", Unit: "%"}, "shed_percent"},
		{Column{Name: "2.5×"}, "2_5x"},
	} {
		if got := test.column.key(); got != test.want {
			t.Errorf("key of %+v = %q, want %q", test.column, got, test.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{0.0, "0"}, {12.345, "12.3"}, {0.00012345, "0.000123"}, {123456.7, "123457"}, {-1.5, "-1.50"}, {1e-15, "0.000000000"},
		{float32(0.5), "0.500"}, {uint64(7), "7"}, {true, "true"}, {nil, ""},
		{999 * time.Nanosecond, "999ns"}, {1234 * time.Nanosecond, "1.23µs"}, {-1500 * time.Millisecond, "-1.5s"}, {time.Duration(0), "0s"},
		{3661 * time.Second, "1h1m0s"},
	} {
		if got := (Column{}).text(test.value); got != test.want {
			t.Errorf("text(%v) = %q, want %q", test.value, got, test.want)
		}
	}
}

func TestAddTooMany(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a row longer than the heading was accepted")
		}
	}()
	(&Table{Columns: []Column{{Name: "a"}}}).Add(1, 2)
}
