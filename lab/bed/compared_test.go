package bed

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/worlds"
)

// Every compared policy plays a world with real processes, through two tiers: what was
// offered ends in one way each, and some of it is answered.
func TestComparedPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	compared := func(length time.Duration) *world.World {
		w := small()
		w.Objective, w.Warmup, w.Length = 10*1000*ms, 0, length // an objective which the slowest machine meets
		w.Clients, w.Network = w.Clients[:1], world.Network{}
		w.Clients[0].Arrive, w.Clients[0].Load = 0, world.Load{Steps: []world.Rate{{PerSecond: 200}}}
		return w
	}
	for _, policy := range worlds.Peers() {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()                                             // each of them mostly waits
			for times := time.Duration(1); times <= 16; times *= 4 { // a policy may take a machine that is slow to begin for overload
				r, err := Run(t.Context(), compared(times*500*ms), policy, 7)
				if err != nil {
					t.Fatal(err)
				}
				g := r.Groups[0]
				if ended := g.Good + g.Late + g.Refused + g.Expired + g.Failed; ended != g.Offered || g.Failed > 0 || g.Good == 0 && times == 16 {
					t.Errorf("%+v: expected each to end once, and answers", g.Counts)
				}
				if g.Good > 0 {
					break
				}
			}
		})
	}
	if _, err := Run(t.Context(), compared(ms), "fifo/http", 1); err == nil || !strings.Contains(err.Error(), "fifo") {
		t.Errorf("a compared policy over HTTP: %v", err)
	}
}

func TestFeedbackOfTrailers(t *testing.T) {
	shed := string(wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Delay}}.Append(nil))
	if f, ok := feedbackOf(metadata.Pairs(levelKey, "7", wire.MetadataKey, shed)); !ok || f.Level != 7 || f.Reason != work.Delay {
		t.Errorf("%+v, %v", f, ok)
	}
	for _, level := range []string{"", "-1", "x", "100000"} {
		if f, ok := feedbackOf(metadata.Pairs(levelKey, level)); ok {
			t.Errorf("level %q was read as %+v", level, f)
		}
	}
	if f, ok := feedbackOf(nil); ok {
		t.Errorf("no trailer was read as %+v", f)
	}
}

// run is a run of so many good answers.
func run(good int, void string) *world.Report {
	return &world.Report{Void: void, Groups: []world.GroupReport{{Counts: world.Counts{Good: good}}}}
}

func TestSeries(t *testing.T) {
	good := func(r *world.Report) float64 { return float64(r.Groups[0].Good) }
	of := func(runs ...*world.Report) *Series { return &Series{Reports: runs} }
	for _, c := range []struct {
		what        string
		mine, other *Series
		ratio       float64
		repeats     int
	}{
		{"a slow repeat is slow for both", of(run(90, ""), run(45, ""), run(80, "")), of(run(100, ""), run(50, ""), run(100, "")), 0.9, 3},
		{"runs left out", of(run(90, ""), run(9, "late"), run(80, "")), of(run(1, "late"), run(50, ""), run(100, "")), 0.8, 1},
		{"and not, if there is no other", of(run(90, "late")), of(run(100, "")), 0.9, 1},
		{"nothing done counts", of(run(0, ""), run(0, "")), of(run(1, ""), run(1, "")), 0, 2},
		{"and cannot be divided by", of(run(1, "")), of(run(0, "")), 0, 0},
		{"no repeat", of(), of(run(1, "")), 0, 0},
	} {
		if ratio, n := c.mine.Beside(c.other, good); math.Abs(ratio-c.ratio) > 1e-9 || n != c.repeats {
			t.Errorf("%s: %g in %d repeats, want %g in %d", c.what, ratio, n, c.ratio, c.repeats)
		}
	}
	s := of(run(3, ""), run(1, "late"), run(4, ""))
	if runs, why := s.Counted(); len(runs) != 2 || why != nil || Median(runs, good) != 3 || Median(s.Reports, good) != 3 || len(s.Disturbed()) != 1 {
		t.Errorf("%d counted runs, %v, median %v of them", len(runs), why, Median(runs, good))
	}
	if runs, why := of(run(1, "late")).Counted(); len(runs) != 1 || len(why) != 1 {
		t.Errorf("of disturbed runs alone: %d, %v", len(runs), why)
	}
}
