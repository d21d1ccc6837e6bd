package experiment

import (
	"context"
	"fmt"
	"math"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
)

// Experiment is a named question.
type Experiment struct {
	// Name is "group/name", as typed.
	Name string
	// Title is what it shows, in one line.
	Title string
	// About is what is run and what a reader should notice, in a paragraph.
	About string
	// Live experiments run on the real clock and need a quiet machine.
	Live bool
	// Run does it. It returns early, with the context's error, when ctx ends.
	Run func(ctx context.Context, o Options) (*Result, error)
}

// Options are what a run may vary.
type Options struct {
	// Seed is the source of all chance.
	Seed uint64
	// Quick takes fewer points and shorter runs: under 45 s on two cores.
	Quick bool
	// Progress, if not nil, is told how many of how many steps are done. It is
	// called from one goroutine at a time.
	Progress func(done, of int, what string)

	crew *crew // shared by the seeds; nil: an experiment's own
}

// Step tells Progress, if it is set.
func (o *Options) Step(done, of int, what string) {
	if o.Progress != nil {
		o.Progress(done, of, what)
	}
}

// Result is what a run found.
type Result struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Seed  uint64 `json:"seed"`
	Quick bool   `json:"quick"`
	// Seeds is how many seeds from Seed on, SeedStride apart, the bars are the worst
	// of; 0 if that is not how the experiment is judged. Shown is the one that Table,
	// Chart and Notes are of.
	Seeds int      `json:"seeds,omitempty"`
	Shown uint64   `json:"shown_seed,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Void says which runs or bars of a live experiment the machine disturbed, and how.
	// The bars that this explains say so themselves; see Result.On.
	Void  []string       `json:"void,omitempty"`
	Bars  []Bar          `json:"bars"`
	Table []*table.Table `json:"tables"`
	Chart []*plot.Chart  `json:"-"`
}

// Bar is a number that must be reached.
type Bar struct {
	// Name says what is measured and where.
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// AtMost tells a ceiling from a floor.
	AtMost    bool    `json:"at_most"`
	Threshold float64 `json:"threshold"`
	// Tolerance is what the quick form, being noisier, may miss Threshold by;
	// 0 in the full form.
	Tolerance float64 `json:"tolerance"`
	Measured  float64 `json:"measured"`
	Pass      bool    `json:"pass"`
	// Void says how the machine explains the figure, so that it counts neither way.
	Void string `json:"void,omitempty"`
	// Spread says what the seeds measured, where several were judged: Measured is
	// the worst of them.
	Spread *Spread `json:"spread,omitempty"`
}

// Floor adds a bar that measured must not fall below.
func (r *Result) Floor(name, unit string, threshold, tolerance, measured float64) {
	r.bar(Bar{Name: name, Unit: unit, Threshold: threshold, Tolerance: tolerance, Measured: measured})
}

// Ceiling adds a bar that measured must not exceed.
func (r *Result) Ceiling(name, unit string, threshold, tolerance, measured float64) {
	r.bar(Bar{Name: name, Unit: unit, AtMost: true, Threshold: threshold, Tolerance: tolerance, Measured: measured})
}

func (r *Result) bar(b Bar) {
	if !r.Quick {
		b.Tolerance = 0
	}
	// Written so that what is not a number passes no bar.
	if b.AtMost {
		b.Pass = b.Measured <= b.Threshold+b.Tolerance
	} else {
		b.Pass = b.Measured >= b.Threshold-b.Tolerance
	}
	if math.IsNaN(b.Measured) || math.IsInf(b.Measured, 0) {
		b.Measured, b.Pass = -1, false // JSON has no other
	}
	r.Bars = append(r.Bars, b)
}

// Short returns the bars that were missed, without those that are void.
func (r *Result) Short() []Bar {
	var short []Bar
	for _, b := range r.Bars {
		if !b.Pass && b.Void == "" {
			short = append(short, b)
		}
	}
	return short
}

// String says what the bar wanted and got.
func (b Bar) String() string {
	word := "at least"
	if b.AtMost {
		word = "at most"
	}
	text := fmt.Sprintf("%s: %.4g%s, expected %s %.4g%s", b.Name, b.Measured, b.Unit, word, b.Threshold, b.Unit)
	if b.Tolerance > 0 {
		text += fmt.Sprintf(" with a tolerance of %.4g%s", b.Tolerance, b.Unit)
	}
	return text
}

// BarTable shows all bars.
func (r *Result) BarTable() *table.Table {
	t := &table.Table{Title: "Bars", Columns: []table.Column{{Name: "bar"}, {Name: "measured", Format: "%.4g"},
		{Name: "wanted"}, {Name: "unit"}, {Name: "verdict"}}}
	if r.Seeds > 1 {
		t.Title = fmt.Sprintf("Bars: the worst of %d seeds, %d, %d … %d", r.Seeds, r.Seed, seedAt(r.Seed, 1), seedAt(r.Seed, r.Seeds-1))
		t.Columns = append(t.Columns, table.Column{Name: "worst seed"}, table.Column{Name: "least"}, table.Column{Name: "median"}, table.Column{Name: "most"}, table.Column{Name: "seeds that state it"})
	}
	for _, b := range r.Bars {
		want := "≥ "
		if b.AtMost {
			want = "≤ "
		}
		want += fmt.Sprintf("%.4g", b.Threshold)
		if b.Tolerance > 0 {
			want += fmt.Sprintf(" ± %.4g", b.Tolerance)
		}
		verdict := table.Cell{Value: "ok", Mark: table.Good}
		switch {
		case b.Void != "":
			verdict = table.Cell{Value: "void", Mark: table.Faint}
		case !b.Pass:
			verdict = table.Cell{Value: "falls short", Mark: table.Bad}
		}
		row := []any{b.Name, b.Measured, want, b.Unit, verdict}
		if s := b.Spread; s != nil && r.Seeds > 1 {
			row = append(row, s.Worst, s.Least, s.Median, s.Most, s.Stated)
		}
		t.Add(row...)
	}
	if r.Quick {
		t.Note = "Quick form: the same bars; ± is the tolerance for its shorter runs."
		if r.Seeds > 0 {
			t.Note += fmt.Sprintf(" In full: the worst of %d seeds.", Seeds)
		}
	}
	return t
}
