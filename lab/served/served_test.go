package served

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/lab/arena"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The test binary is also the children's program.
func TestMain(m *testing.M) {
	Child()
	goleak.VerifyTestMain(m)
}

func processes(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Raw clients speak gRPC well enough for every kind of server to answer, and the
// gate has an account for each.
func TestCrowd(t *testing.T) {
	ctx := processes(t)
	for _, kind := range []string{grpcPlain, grpcGated} {
		c, err := gather(ctx, kind, 20)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		want := 0
		if kind == grpcGated {
			want = 20
		}
		if s, err := c.state(); err != nil || s.Clients != want || s.Memory <= 0 {
			t.Errorf("%s: state %+v, error %v; want %d accounts", kind, s, err, want)
		}
		// More calls than a connection's flow-control window has room for replies
		// if nobody widened it.
		each, refused, err := c.drive(ctx, 20*14_000/10)
		if err != nil || each <= 0 || refused > 0 {
			t.Errorf("%s: %v a call, %d refused, error %v", kind, each, refused, err)
		}
	}
}

func TestCrowdSaysThatItsServerIsGone(t *testing.T) {
	ctx := processes(t)
	c, err := gather(ctx, grpcPlain, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	c.stop()
	if _, _, err := c.drive(ctx, 5); err == nil {
		t.Error("calls to a server that is gone gave no error")
	}
}

func TestHTTPServersAnswer(t *testing.T) {
	ctx := processes(t)
	upstream, err := compare(ctx, httpPlain, "")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.stop()
	client := newClient()
	defer client.CloseIdleConnections()
	for _, kind := range []string{httpGated, proxyPlain, proxyGated} {
		c, err := compare(ctx, kind, "http://"+upstream.calls)
		if err != nil {
			t.Fatal(err)
		}
		defer c.stop()
		if each, err := driveHTTP(ctx, client, c, 50); err != nil || each < 0 {
			t.Errorf("%s: %v a request, error %v", kind, each, err)
		}
	}
	if _, err := compare(ctx, "no/such", ""); err == nil || !strings.Contains(err.Error(), "no kind of server") {
		t.Errorf("an unknown kind: error %v", err)
	}
}

// A station slows down and the client's figures show it. The speeds differ by so
// much that no machine hides it.
func TestChangesReachTheStation(t *testing.T) {
	ctx := processes(t)
	setting := arena.Setting{Name: "sleep", Station: "sleep", Slots: 4, Mean: time.Millisecond, Objective: 30 * time.Second}
	got, err := arena.Measure(ctx, arena.Job{Controller: "none", Setting: setting, Conns: 4, Cold: true,
		Profile: openloop.Profile{{Rate: 100, For: 2 * time.Second}}, From: time.Second, Seed: 1,
		Changes: []arena.Change{{At: time.Second, Slowness: 1e4}}})
	if err != nil {
		t.Fatal(err)
	}
	before := between(got.Result.Windows, 0, time.Second, good)
	after := between(got.Result.Windows, time.Second, 2*time.Second, good)
	if before == 0 || after > before/2 || got.Counted.From != time.Second {
		t.Errorf("%g answers before the station slowed down and %g after, counted from %v", before, after, got.Counted.From)
	}
}

func TestJudgePeers(t *testing.T) {
	row := func(station, controller string, load, share float64, valid int) arena.Row {
		return arena.Row{Station: station, Controller: controller, Load: load, Share: share, Valid: valid, Repeats: 1,
			P99: 2 * time.Millisecond, Refusal99: time.Millisecond, Why: "late"}
	}
	all := func(change func([]arena.Row)) *arena.Outcome {
		var rows []arena.Row
		for _, s := range []string{"fast sleep", "fast spin"} {
			rows = append(rows, row(s, ours, 2, 0.9, 1), row(s, ours, 4, 0.9, 1), row(s, ours, arena.Spike, 0, 1),
				row(s, semaphore, 2, 0.5, 1), row(s, "semaphore/short", 1, 0.92, 1), row(s, "semaphore/short", 2, 2, 0), row(s, "vegas", 1, 3, 1))
		}
		for i := range rows {
			if byHand(rows[i].Controller) {
				rows[i].Refusal99 = 300 * time.Microsecond // the machine is quick enough to tell
			}
		}
		change(rows)
		for i := range rows {
			rows[i].Each = []float64{rows[i].Share}
		}
		return &arena.Outcome{Rows: rows}
	}
	for _, c := range []struct {
		what        string
		change      func([]arena.Row)
		short, void int
		says        string
	}{
		{"the best at any load counts; runs that do not count, and others, are no bar", func([]arena.Row) {}, 2, 0, "refused clients know, p99, fast spin at 2x: 1 ms"},
		{"one load falls short", func(r []arena.Row) { r[1].Share = 0.8 }, 3, 0, "goodput, fast sleep at 4x: 0.8696 of the semaphore's best"},
		{"a disturbed run that reaches its bars does", func(r []arena.Row) { r[0].Valid = 0 }, 2, 0, ""},
		{"one that does not says nothing", func(r []arena.Row) { r[0].Valid, r[0].Share = 0, 0.1 }, 2, 1, "goodput, fast sleep at 2x: late"},
		{"but hides no miss of another load", func(r []arena.Row) { r[0].Valid, r[0].Share, r[1].Share = 0, 0.1, 0.1 }, 3, 1, "goodput, fast sleep at 4x: 0.1087"},
		{"no run of the semaphore counts", func(r []arena.Row) { r[0].Share, r[1].Share, r[3].Valid, r[4].Valid, r[5].Share = 3, 3, 0, 0, 0.9 }, 2, 2, "fast sleep at 2x: too few runs of the semaphore"},
		{"which hides no miss beside them", func(r []arena.Row) { r[3].Valid, r[4].Valid = 0, 0 }, 4, 0, "goodput, fast sleep at 2x: 0.45"},
		{"refused clients know late", func(r []arena.Row) { r[0].Refusal99 = 3 * time.Millisecond }, 3, 0, "refused clients know, p99, fast sleep at 2x: 3 ms"},
		{"also where a semaphore tells them as late: a figure excuses no figure", func(r []arena.Row) {
			r[0].Refusal99, r[3].Refusal99 = 3*time.Millisecond, 2500*time.Microsecond
		}, 3, 0, "refused clients know, p99, fast sleep at 2x: 3 ms"},
	} {
		r := &experiment.Result{}
		judgePeers(r, all(c.change))
		text := strings.Join(r.Void, "\n")
		for _, bar := range r.Short() {
			text += "\n" + bar.String()
		}
		if len(r.Short()) != c.short || len(r.Void) != c.void || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d bars missed, %d void, want %d and %d and %q:\n%s", c.what, len(r.Short()), len(r.Void), c.short, c.void, c.says, text)
		}
	}
}

// The quick forms run what their bars need, in the time that they may take.
func TestPeersPlans(t *testing.T) {
	for name, planned := range map[string]func(experiment.Options) arena.Plan{"peers": peersPlan, "fast": fastPlan} {
		for _, quick := range []bool{true, false} {
			plan := planned(experiment.Options{Quick: quick, Seed: 1})
			runs := map[string]int{}
			var took time.Duration
			for _, s := range plan.Settings {
				for _, load := range plan.Loads {
					for _, c := range plan.Controllers {
						if !plan.Skip(s, load, c.Name) {
							runs[c.Name]++
							took += max(plan.Length, time.Duration(plan.Objectives)*s.Objective) + 700*time.Millisecond
						}
					}
				}
			}
			if runs[ours] < 4 || runs[semaphore] < 4 || runs["none"] == 0 || runs["fifo"] == 0 {
				t.Errorf("%s, quick %v: too little is run: %v", name, quick, runs)
			}
			if quick && took > 40*time.Second {
				t.Errorf("%s: the quick form's runs take %v: %v", name, took, runs)
			}
		}
	}
}

func TestShareAndMedian(t *testing.T) {
	windows := []measure.Span{{From: 0, To: 1, Counts: measure.Counts{Offered: 10, Refused: 5}},
		{From: 1, To: 2, Counts: measure.Counts{Offered: 10, Refused: 1, TimedOut: 1, Failed: 1, NotSent: 1, Good: 6}},
		{From: 2, To: 3}}
	if got := share(windows, 1, 3, refused); math.Abs(got-0.4) > 1e-9 {
		t.Errorf("share of refused = %g, want 0.4: all that got no answer", got)
	}
	if got := share(windows, 2, 3, good); got != 0 {
		t.Errorf("share of nothing = %g", got)
	}
	list := []float64{3, 1, 2, 4}
	if got := median(list); got != 2 || list[0] != 3 {
		t.Errorf("median = %g, want 2, and the list as it was: %v", got, list)
	}
}

func TestExperimentsAreComplete(t *testing.T) {
	for _, e := range Experiments() {
		if e.Name == "" || e.Title == "" || e.About == "" || !e.Live || e.Run == nil {
			t.Errorf("%q is not complete", e.Name)
		}
	}
}

// Only batches that nobody disturbed count, if there are enough; a miss without them says
// nothing.
func TestDecisionsAreJudged(t *testing.T) {
	many := func(n int, ns float64) []float64 { return slices.Repeat([]float64{ns}, n) }
	for _, c := range []struct {
		what         string
		spent, quiet []float64
		measured     float64
		pass, void   bool
	}{
		{"fast, mostly disturbed", many(100, 500), many(10, 300), 300, true, false},
		{"slow, mostly disturbed", many(100, 600), many(10, 450), 450, false, false},
		{"slow and always disturbed", many(100, 500), many(9, 300), 500, false, true},
		{"fast though disturbed", many(100, 390), nil, 390, true, false},
	} {
		r := &experiment.Result{}
		(&decisions{kinds: []*kind{{name: "a decision", bar: true, spent: c.spent, quiet: c.quiet, allocated: many(1, 0)}}}).judge(r)
		if b := r.Bars[0]; b.Measured != c.measured || b.Pass != c.pass || len(r.Void) > 0 != c.void {
			t.Errorf("%s: %v, void %q", c.what, b, r.Void)
		}
	}
}
