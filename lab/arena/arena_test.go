package arena

import (
	"context"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/harness/measure"
)

// The test binary is also the children's program.
func TestMain(m *testing.M) {
	Child(Own())
	os.Exit(m.Run())
}

// Real processes, a short run of two controllers. What they reach is the
// machine's business; that both are counted and carry traffic is not.
func TestRunCarriesTrafficThroughProcesses(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var steps int
	patient := FastSleep()
	patient.Objective = 2 * time.Second // which the slowest machine meets
	out, err := Run(ctx, Plan{
		Controllers: pick(t, "spillgate", "semaphore"), Settings: []Setting{patient}, Loads: []float64{0.2, Spike},
		Repeats: 1, Length: time.Second, Conns: 4, Seed: 1, Progress: func(int, int, string) { steps++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Rows) != 4 || steps != 5 || out.Capacity["fast sleep"] != 2000 {
		t.Errorf("%d rows, %d steps, capacity %v; want 4, 5 and 2,000", len(out.Rows), steps, out.Capacity)
	}
	for _, row := range out.Rows {
		if row.Share <= 0 || row.P99 <= 0 {
			t.Errorf("%s at %s served nothing: %+v", row.Controller, loadName(row.Load), row)
		}
	}
	text := out.Tables()[0].Text(120)
	for _, want := range []string{"spillgate", "semaphore", "0.4→1.4", "2000/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not mention %q:\n%s", want, text)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, Plan{Controllers: pick(t, "none"), Settings: []Setting{Sleep()}, Repeats: 1}); err == nil {
		t.Error("a canceled run returned no error")
	}
}

func TestPlanNamesEveryMistake(t *testing.T) {
	_, err := Run(context.Background(), Plan{Repeats: -1, Loads: []float64{-3}})
	for _, want := range []string{"no controllers", "are -1", "load is -3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// Every controller of this module can be made for both servers.
func TestEveryControllerIsComplete(t *testing.T) {
	for _, c := range Own() {
		for _, s := range Settings() {
			in, err := c.Server(s)
			if err != nil {
				t.Errorf("%s, %s: %v", c.Name, s.Name, err)
				continue
			}
			if in.Stop != nil {
				in.Stop()
			}
			if c.Client == nil {
				continue
			}
			_, stop, err := c.Client(s, 3)
			if err != nil {
				t.Errorf("%s, %s, client: %v", c.Name, s.Name, err)
			}
			if stop != nil {
				stop()
			}
		}
	}
}

func TestSettled(t *testing.T) {
	ms := time.Millisecond
	windows := func(goodput ...float64) (out []measure.Span) {
		for i, g := range goodput {
			out = append(out, measure.Span{From: time.Duration(i) * 100 * ms, To: time.Duration(i+1) * 100 * ms, Goodput: g})
		}
		return out
	}
	for _, c := range []struct {
		what    string
		windows []measure.Span
		want    time.Duration
	}{
		{"never below", windows(0, 9, 9, 9), 0},
		{"one bad window after the step", windows(9, 1, 9, 9), 100 * ms},
		{"a late relapse", windows(9, 9, 1, 9), 200 * ms},
		{"bad to the end", windows(9, 9, 9, 1), -1},
	} {
		if got := settled(c.windows, 100*ms, 400*ms, 8); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestOutcomeOfStatuses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want measure.Kind
	}{
		{nil, measure.Served},
		{status.Error(codes.Unavailable, "x"), measure.Refused},
		{status.Error(codes.PermissionDenied, "limit exceeded"), measure.Refused},
		{status.Error(codes.DeadlineExceeded, "spillgate: the server refused the request: expired; do not retry"), measure.Refused},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), measure.TimedOut},
		{status.Error(codes.Internal, "x"), measure.Failed},
	} {
		if got := outcome(c.err); got.Kind != c.want {
			t.Errorf("%v: %v, want %v", c.err, got.Kind, c.want)
		}
	}
}

func pick(t *testing.T, names ...string) (chosen []Controller) {
	t.Helper()
	for _, name := range names {
		for _, c := range Own() {
			if c.Name == name {
				chosen = append(chosen, c)
			}
		}
	}
	if len(chosen) != len(names) {
		t.Fatalf("no such controllers: %v", names)
	}
	return chosen
}

func TestBeside(t *testing.T) {
	row := func(each ...float64) Row { return Row{Each: each} }
	for _, c := range []struct {
		what       string
		row, other Row
		ratio      float64
		repeats    int
	}{
		{"a slow repeat is slow for both", row(0.9, 0.45, 0.8), row(1, 0.5, 1), 0.9, 3},
		{"runs left out", row(0.9, -1, 0.8), row(-1, 0.5, 1), 0.8, 1},
		{"nothing done counts", row(0, 0), row(1, 1), 0, 2},
		{"and cannot be divided by", row(1), row(0), 0, 0},
		{"no repeat", row(), row(1), 0, 0},
	} {
		if ratio, n := c.row.Beside(c.other); math.Abs(ratio-c.ratio) > 1e-9 || n != c.repeats {
			t.Errorf("%s: %g in %d repeats, want %g in %d", c.what, ratio, n, c.ratio, c.repeats)
		}
	}
}
