package served

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

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
