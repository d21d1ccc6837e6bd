package plot

import (
	"bytes"
	"encoding/xml"
	"flag"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/spillgate/spillgate/internal/seeded"
)

var update = flag.Bool("update", false, "rewrite the expected text charts; read the difference")

func TestText(t *testing.T) {
	for name, c := range map[string]*Chart{
		"goodput": goodputChart(), "time": timeChart(), "cdf": cdfChart(), "bars": barChart(), "empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.Text(78, 13)
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSpark(t *testing.T) {
	for _, test := range []struct {
		values []float64
		width  int
		want   string
	}{
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7}, 80, "▁▂▃▄▅▆▇█"},
		{[]float64{9, 9, 9, 0, 7}, 2, "▁█"},
		{[]float64{-1, math.NaN(), 1}, 3, "▁ █"},
		{[]float64{0, 0}, 3, "▁▁"},
		{[]float64{math.Inf(1)}, 3, " "},
		{[]float64{1}, -1, ""},
		{nil, 3, ""},
	} {
		if got := Spark(test.values, test.width); got != test.want {
			t.Errorf("Spark(%v, %d) = %q, want %q", test.values, test.width, got, test.want)
		}
	}
}

func TestThinKeepsPeaks(t *testing.T) {
	run := make([]point, 100_000)
	for i := range run {
		run[i] = point{float64(i), 1}
	}
	run[12345].y, run[67890].y = 9, -9
	thinned := thin(run)
	if len(thinned) > maxPoints {
		t.Errorf("%d points, more than %d", len(thinned), maxPoints)
	}
	if !slices.Contains(thinned, run[12345]) || !slices.Contains(thinned, run[67890]) {
		t.Error("a peak was lost")
	}
	if !slices.IsSortedFunc(thinned, func(a, b point) int { return int(a.x - b.x) }) {
		t.Error("the points are out of order")
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		s    scale
		n    int
		want string
	}{
		{scale{min: 0, max: 1}, 5, "0 0.2 0.4 0.6 0.8 1.0"},
		{scale{min: 0, max: 125e3}, 5, "0 50k 100k"},
		{scale{min: 0, max: 3e6}, 3, "0 1M 2M 3M"},
		{scale{min: -3, max: 3}, 6, "-3 -2 -1 0 1 2 3"},
		{scale{min: 9.97, max: 10.03}, 4, "9.98 10.00 10.02"},
		{scale{min: 1, max: 1000, log: true}, 6, "1 10 100 1000"},
		{scale{min: 0.1, max: 10, log: true}, 8, "0.1 0.2 0.5 1 2 5 10"},
		{scale{min: 1, max: 1e9, log: true}, 5, "1 100 10k 1M 100M"},
		{scale{min: 30, max: 60, log: true}, 5, "30 40 50 60"},
	} {
		var labels []string
		for _, tick := range test.s.ticks(test.n) {
			if tick.label != "" {
				labels = append(labels, tick.label)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%+v, about %d: %s, want %s", test.s, test.n, got, test.want)
		}
	}
}

// Names beside the lines never overlap, keep their order, and move no further
// than they must: where there is room, not at all.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := rapid.SliceOfN(rapid.Float64Range(0, 300), 0, 12).Draw(t, "heights")
		slices.Sort(wanted)
		got := slices.Clone(wanted)
		const gap = 12
		spread(got, gap)
		roomy := true
		for i := 1; i < len(got); i++ {
			if got[i]-got[i-1] < gap-1e-6 {
				t.Fatalf("%v and %v overlap", got[i-1], got[i])
			}
			roomy = roomy && wanted[i]-wanted[i-1] >= gap
		}
		if roomy && !slices.Equal(got, wanted) {
			t.Fatalf("moved %v to %v without need", wanted, got)
		}
	})
}

// Whatever the values, a chart can be drawn in each form: the picture is well
// formed, and the text fits its width.
func TestAnyChartCanBeDrawn(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{
		0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64}))
	values := rapid.SliceOfN(value, 0, 12)
	axis := func(t *rapid.T) Axis {
		return Axis{Label: rapid.String().Draw(t, "label"), Unit: "<s>", Log: rapid.Bool().Draw(t, "log"),
			Min: value.Draw(t, "min"), Max: value.Draw(t, "max")}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := &Chart{Title: rapid.String().Draw(t, "title"), X: axis(t), Y: axis(t)}
		for range rapid.IntRange(0, 4).Draw(t, "series") {
			s := Series{Name: rapid.String().Draw(t, "name"), Y: values.Draw(t, "y"), Dashed: rapid.Bool().Draw(t, "dashed")}
			if rapid.Bool().Draw(t, "has x") {
				s.X = values.Draw(t, "x")
			}
			c.Series = append(c.Series, s)
		}
		if rapid.Bool().Draw(t, "bars") {
			c.Categories = rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "categories")
		}
		c.Levels = []Level{{"level", value.Draw(t, "level"), rapid.Bool().Draw(t, "vertical")}}
		c.Spans = []Span{{"span", value.Draw(t, "from"), value.Draw(t, "to")}}

		var svg bytes.Buffer
		if err := c.SVG(&svg); err != nil {
			t.Fatal(err)
		}
		for decoder := xml.NewDecoder(&svg); ; {
			if _, err := decoder.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("not XML: %v", err)
			}
		}
		if text := c.Text(60, 8); text == "" && c.Categories == nil {
			t.Fatal("no text")
		}
	})
}

func TestPNG(t *testing.T) {
	var first, second bytes.Buffer
	if err := cdfChart().PNG(&first); err != nil {
		t.Fatal(err)
	}
	if err := cdfChart().PNG(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same chart drawn twice differs")
	}
	picture, err := png.Decode(&first)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[any]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			colours[picture.At(x, y)] = true
		}
	}
	if len(colours) < 20 {
		t.Errorf("%d colours: it seems nothing was drawn", len(colours))
	}
}

func TestReport(t *testing.T) {
	r := &Report{Title: "A <b>report</b>", Run: Run{Command: "spillgate lab run 'x & y'", Seed: 7, Commit: "0123", Machine: "m",
		Started: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)}}
	r.Section("Charts")
	r.Text("One.\n\nTwo.\n\n")
	hostile := &Chart{Title: "</svg><script>alert(1)</script>", Series: []Series{{Name: "<i>", Y: []float64{1, 2}}}}
	for _, c := range []*Chart{goodputChart(), timeChart(), goodputChart(), hostile, {}} {
		r.Chart(c)
	}
	r.Table(sampleTable())
	dir := filepath.Join(t.TempDir(), "new", "report")
	path, err := r.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(dir, "index.html") {
		t.Errorf("path %q", path)
	}
	html, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(html)
	for _, want := range []string{"A &lt;b&gt;report&lt;/b&gt;", "spillgate lab run &#39;x &amp; y&#39;", "<dd>7</dd>", "2024-05-06 07:08:09 UTC",
		"<p>One.</p>", "<p>Two.</p>", `<td class="number">14.0</td>`, `class="text good"`, "Published: OSDI 2020."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "<svg"); n != 5 {
		t.Errorf("%d drawings, want 5", n)
	}
	// Self-contained: nothing runs and nothing is loaded from elsewhere.
	for _, bad := range []string{"<script", "src=", "<link", "@import", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, name := range []string{"goodput-under-overload.png", "goodput-under-overload-2.png", "svg-script-alert-1-script.png", "chart.png"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := png.DecodeConfig(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		file.Close()
		svg, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(name, "png")+"svg"))
		if err != nil || !bytes.Contains(svg, []byte("prefers-color-scheme: dark")) {
			t.Errorf("the SVG beside %s has no dark form: %v", name, err)
		}
	}
	if _, err := r.Write(path); err == nil { // a file where the directory should be
		t.Error("Write into a file succeeded")
	}
}

func TestThisRun(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{"some/where/spillgate", "lab", "run", "it's", ""}
	run := ThisRun(3)
	if want := `spillgate lab run 'it'\''s' ''`; run.Command != want {
		t.Errorf("Command = %s, want %s", run.Command, want)
	}
	if run.Seed != 3 || run.Commit == "" || run.Machine == "" || run.Started.IsZero() {
		t.Errorf("incomplete: %+v", run)
	}
}

// A directory that cannot be written is found before a run, and one that can is left empty.
func TestPrepare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "report")
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(filepath.Join(file, "below")); err == nil || !strings.Contains(err.Error(), "expected a directory") {
		t.Errorf("below a file: %v", err)
	}
}
