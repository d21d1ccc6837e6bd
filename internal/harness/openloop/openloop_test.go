package openloop

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const ms = time.Millisecond

func run(t testing.TB, ctx context.Context, cfg Config) measure.Result {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Run(ctx); err == nil {
		t.Error("a second Run was accepted")
	}
	return res
}

// Every request of the plan is sent once, with its number and its own
// intended instant, and counted as it ended.
func TestEveryRequestIsSentOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]time.Time{}
	res := run(t, t.Context(), Config{
		Arrivals: evenly(Steady(1000, 200*ms)),
		SLO:      time.Minute,
		Send: func(_ context.Context, i int, intended time.Time) measure.Outcome {
			if time.Now().Before(intended) {
				t.Errorf("request %d left before its instant", i)
			}
			mu.Lock()
			defer mu.Unlock()
			if _, twice := seen[i]; twice {
				t.Errorf("request %d was sent twice", i)
			}
			seen[i] = intended
			if i%4 == 0 {
				return measure.Outcome{Kind: measure.Refused, Reason: "fourth"}
			}
			return measure.Outcome{Kind: measure.Served}
		},
	})
	if len(seen) != 200 {
		t.Fatalf("%d requests, want 200", len(seen))
	}
	for i := range 199 {
		if gap := seen[i+1].Sub(seen[i]); gap != ms {
			t.Errorf("requests %d and %d were meant %v apart, want 1ms", i, i+1, gap)
		}
	}
	want := measure.Counts{Offered: 200, Sent: 200, Served: 150, Good: 150, OnTime: 150, Refused: 50}
	if res.Total.Counts != want || res.Total.RefusedBy["fourth"] != 50 {
		t.Errorf("got %+v %v\nwant %+v", res.Total.Counts, res.Total.RefusedBy, want)
	}
	if res.SendLag.Count != 200 || !res.Valid {
		t.Errorf("send lag of %d requests, valid=%v %q", res.SendLag.Count, res.Valid, res.Invalid)
	}
}

// A run whose start has passed is behind its plan, which it does not move.
func TestALateRunKeepsItsPlan(t *testing.T) {
	start := time.Now().Add(-50 * ms)
	var mu sync.Mutex
	var seen []time.Duration
	res := run(t, t.Context(), Config{
		Arrivals: evenly(Steady(1000, 60*ms)),
		SLO:      time.Minute,
		Start:    start,
		Send: func(_ context.Context, _ int, intended time.Time) measure.Outcome {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, intended.Sub(start))
			return measure.Outcome{Kind: measure.Served}
		},
	})
	slices.Sort(seen)
	if len(seen) != 60 || seen[0] != ms/2 || seen[59] != 59*ms+ms/2 {
		t.Errorf("meant at %v after the start, expected 500µs to 59.5ms", seen)
	}
	if first := res.Total.Latency.Max; first < 49*ms {
		t.Errorf("the first request took %v, expected the 49.5ms by which it was late", first)
	}
}

// A server that stands still does not slow the generator: all requests leave,
// and the wait is in their latency. This is what a closed loop gets wrong.
func TestAStandstillDoesNotSlowTheGenerator(t *testing.T) {
	release := make(chan struct{})
	var waiting atomic.Int32
	res := run(t, t.Context(), Config{
		Arrivals: evenly(Steady(1000, 100*ms)),
		SLO:      time.Minute,
		Send: func(context.Context, int, time.Time) measure.Outcome {
			if waiting.Add(1) == 100 {
				close(release) // only the last of 100 frees the others
			}
			<-release
			return measure.Outcome{Kind: measure.Served}
		},
	})
	if res.Total.Served != 100 {
		t.Errorf("served %d, want 100", res.Total.Served)
	}
	if first := res.Total.Latency.Max; first < 99*ms {
		t.Errorf("the first request waited %v, want at least the 99ms until the last was sent", first)
	}
}

func TestLimitOfRequestsInFlight(t *testing.T) {
	release := make(chan struct{})
	res := run(t, t.Context(), Config{
		Arrivals:    &after{Arrivals: evenly(Steady(1000, 50*ms)), do: func() { close(release) }},
		SLO:         time.Minute,
		MaxInFlight: 10,
		Send: func(context.Context, int, time.Time) measure.Outcome {
			<-release
			return measure.Outcome{Kind: measure.Served}
		},
	})
	want := measure.Counts{Offered: 50, NotSent: 40, Sent: 10, Served: 10, Good: 10, OnTime: 10}
	if res.Total.Counts != want {
		t.Errorf("got %+v\nwant %+v", res.Total.Counts, want)
	}
	// Whose requests pile up has failed, and is not excused.
	if !res.Valid || !strings.Contains(strings.Join(res.Remarks, ";"), "40 of 50 requests were not sent") {
		t.Errorf("valid=%v %q, remarks %q", res.Valid, res.Invalid, res.Remarks)
	}
}

// after calls do when the arrivals have come to their end.
type after struct {
	Arrivals
	do func()
}

func (a *after) Next() (time.Duration, bool) {
	at, ok := a.Arrivals.Next()
	if !ok {
		a.do()
	}
	return at, ok
}

// Requests that never come back are cut off after Drain and counted.
func TestDrainEnds(t *testing.T) {
	res := run(t, t.Context(), Config{
		Arrivals: evenly(Steady(1000, 20*ms)),
		SLO:      ms,
		Drain:    10 * ms,
		Send: func(ctx context.Context, _ int, _ time.Time) measure.Outcome {
			<-ctx.Done()
			return measure.Outcome{Kind: measure.Failed, Reason: "cancelled"}
		},
	})
	if res.Total.Unfinished != 20 || res.Total.Failed != 0 || res.Total.Attainment != 0 {
		t.Errorf("%+v, want 20 unfinished and an attainment of 0", res.Total.Counts)
	}
}

func TestStopMarksTheRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	res := run(t, ctx, Config{
		Arrivals: evenly(Steady(100, time.Hour)),
		SLO:      time.Minute,
		Send: func(_ context.Context, i int, _ time.Time) measure.Outcome {
			if i == 2 {
				stop()
			}
			return measure.Outcome{Kind: measure.Served}
		},
	})
	if res.Valid || !strings.Contains(strings.Join(res.Invalid, ";"), "stopped after") {
		t.Errorf("valid=%v %q, want it marked as stopped", res.Valid, res.Invalid)
	}
	if res.Total.Served < 3 {
		t.Errorf("served %d, want the part that was run", res.Total.Served)
	}
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{MaxInFlight: -1, Drain: -1})
	for _, want := range []string{"Arrivals is nil", "Send is nil", "SLO is 0s", "MaxInFlight is -1", "Drain is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// BenchmarkSendLag prints how late requests that do nothing leave, at 2,000
// and at 20,000 a second.
func BenchmarkSendLag(b *testing.B) {
	for _, c := range []struct {
		name string
		rate float64
	}{{"2k", 2000}, {"20k", 20_000}} {
		b.Run(c.name, func(b *testing.B) {
			var res measure.Result
			for range b.N {
				a, err := Poisson(Steady(c.rate, time.Second), 1)
				if err != nil {
					b.Fatal(err)
				}
				res = run(b, b.Context(), Config{
					Arrivals: a, SLO: 10 * ms,
					Send: func(context.Context, int, time.Time) measure.Outcome {
						return measure.Outcome{Kind: measure.Served}
					},
				})
			}
			b.ReportMetric(float64(res.SendLag.P50)/1e3, "p50-lag-µs")
			b.ReportMetric(float64(res.SendLag.P99)/1e3, "p99-lag-µs")
			b.ReportMetric(float64(runtime.GOMAXPROCS(0)), "procs")
		})
	}
}
