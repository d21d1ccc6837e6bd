package workflowslive

import (
	"context"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the program of the children.
func TestMain(m *testing.M) {
	Child()
	goleak.VerifyTestMain(m)
}

func processes(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// short is a setting with an overload of the extent nodes in its second half.
func short() setting {
	return isolationSetting(7, 200*time.Millisecond, 600*time.Millisecond, 300*time.Millisecond)
}

// TestAllTiersTakePart: requests pass through all processes and are accounted for;
// only with rates is anything refused at the entry.
func TestAllTiersTakePart(t *testing.T) {
	ctx := processes(t)
	for _, c := range []control{deadlines, rated, ratedFair} {
		t.Run(string(c), func(t *testing.T) {
			s := short()
			m, err := run(ctx, s, c)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.flows) != len(s.Flows) || m.busy <= 0 {
				t.Fatalf("%d workflows, servers busy for %v, expected %d and more than 0", len(m.flows), m.busy, len(s.Flows))
			}
			for i, f := range s.Flows {
				got := m.flows[i].Result.Total
				if got.Offered == 0 || got.Served == 0 || got.Failed > 0 {
					t.Errorf("%s: %d offered, %d served, %d failed %v", f.Name, got.Offered, got.Served, got.Failed, got.FailedBy)
				}
				if sum := got.NotSent + got.Served + got.Refused + got.Failed + got.TimedOut + got.Unfinished; sum != got.Offered {
					t.Errorf("%s: %d offered, %d accounted for", f.Name, got.Offered, sum)
				}
				if c == deadlines && got.RefusedBy[atEntry] > 0 {
					t.Errorf("%s: %d refused at the entry without rates", f.Name, got.RefusedBy[atEntry])
				}
			}
			if f := m.flows[len(s.Flows)-1].Result.Total; c != deadlines && f.RefusedBy[atEntry] == 0 {
				t.Errorf("F: none of %d refused at the entry, %v further down", f.Offered, f.RefusedBy)
			}
		})
	}
}

// TestHotspotTakesPart: requests that hold the semaphore are served.
func TestHotspotTakesPart(t *testing.T) {
	ctx := processes(t)
	s := hotspotSetting(3, 200*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond)
	m, err := run(ctx, s, ratedFair)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range s.Flows {
		if got := m.flows[i].Result.Total; got.Served == 0 || got.Failed > 0 {
			t.Errorf("%s: %d of %d served, %d failed %v", f.Name, got.Served, got.Offered, got.Failed, got.FailedBy)
		}
	}
}

// TestStretchesAskForTheSame: request i and the one a period later ask for the same
// work, others do not, and on average it is what the setting says.
func TestStretchesAskForTheSame(t *testing.T) {
	s := isolationSetting(1, time.Second, 5*time.Second, time.Second)
	const period = victimRate * 5
	var sum time.Duration
	same := 0
	for i := range period {
		p, q := s.plan(1, i), s.plan(1, i+period)
		if p.Work != q.Work || p.PS != q.PS || p.Reads[0] != q.Reads[0] || p.Reads[1] != q.Reads[1] {
			t.Fatalf("request %d asks for %+v, a period later for %+v", i, p, q)
		}
		if p.Work == s.plan(1, i+1).Work || p.Work == s.plan(2, i).Work {
			same++
		}
		sum += p.Reads[0].Work + p.Reads[1].Work
	}
	if mean := sum / (2 * period); same > 0 || mean < victimRead*9/10 || mean > victimRead*11/10 {
		t.Errorf("reads take %v on average, expected about %v; %d requests are like their neighbours", mean, victimRead, same)
	}
}

func TestSettingsAreValid(t *testing.T) {
	for _, s := range []setting{isolationSetting(1, time.Second, time.Second, time.Second), hotspotSetting(1, time.Second, time.Second, time.Second)} {
		if err := s.validate(); err != nil {
			t.Error(err)
		}
	}
	bad := setting{Flows: []flow{{Name: "x"}}}
	if bad.validate() == nil {
		t.Error("a setting of nothing is valid")
	}
}
