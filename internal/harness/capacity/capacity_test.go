package capacity_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/capacity"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const ms = time.Millisecond

func served(context.Context, int, time.Time) measure.Outcome {
	return measure.Outcome{Kind: measure.Served}
}

func station(t testing.TB, cfg service.Config) (*service.Station, func(context.Context, int, time.Time) measure.Outcome) {
	t.Helper()
	st, err := service.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st, func(ctx context.Context, _ int, _ time.Time) measure.Outcome {
		if err := st.Do(ctx); err != nil {
			return measure.Outcome{Kind: measure.Failed, Reason: err.Error()}
		}
		return measure.Outcome{Kind: measure.Served}
	}
}

// A station of two servers at 2 ms cannot do more than 1,000/s, and a noisy
// machine can only find less.
func TestFindsNoMoreThanThereIs(t *testing.T) {
	st, send := station(t, service.Config{Workers: 2, Mean: 2 * ms, Dist: service.Constant})
	var tries []capacity.Try
	found, err := capacity.Find(t.Context(), capacity.Config{
		Send: send, SLO: 10 * time.Second, Try: 100 * ms, MaxConcurrency: 16,
		OnTry: func(try capacity.Try) { tries = append(tries, try) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if most := st.Capacity() * 1.25; found.Rate <= 0 || found.Rate > most { // 1.25: completions at the borders of 70 ms
		t.Errorf("found %.0f/s, want above 0 and at most %.0f", found.Rate, most)
	}
	if len(tries) != len(found.Tries) || len(tries) < 3 {
		t.Fatalf("%d tries told, %d kept; want the same, and 3 at least", len(tries), len(found.Tries))
	}
	n := 1
	for _, try := range tries {
		if try.Load == 0 && try.Concurrency != n {
			t.Errorf("closed loop with %d in flight, want %d", try.Concurrency, n)
		}
		if c := st.Counts(); c.Waiting != 0 || c.Running != 0 {
			t.Errorf("requests were left behind: %+v", c)
		}
		n *= 2
	}
	if last := tries[len(tries)-1]; last.Load <= 0 {
		t.Errorf("the last try %+v is not the open-loop check", last)
	}
}

// The retake decides, also when the best try did better.
func TestRetakeReplacesTheTop(t *testing.T) {
	var tries []capacity.Try
	var slow atomic.Bool
	found, err := capacity.Find(t.Context(), capacity.Config{
		Try: 300 * ms, Retake: 300 * ms, SLO: 10 * time.Second, // a busy machine may stop this program for 100 ms
		MaxConcurrency: 1, CheckAttainment: 0.01,
		OnTry: func(try capacity.Try) { tries, _ = append(tries, try), slow.Swap(true) },
		Send: func(context.Context, int, time.Time) measure.Outcome {
			if slow.Load() {
				time.Sleep(20 * ms)
			}
			return measure.Outcome{Kind: measure.Served}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tries) < 3 || tries[1].Concurrency != 1 || tries[1].Load != 0 {
		t.Fatalf("tries are %+v, want one closed loop, its retake, and checks", tries)
	}
	again := 0.0 // of several retakes the best counts
	for _, try := range tries[1:] {
		if try.Load == 0 {
			again = max(again, try.Result.Goodput)
		}
	}
	if found.Rate > again || again > tries[0].Result.Goodput/2 {
		t.Errorf("found %.0f/s after %.0f/s and %.0f/s in the best retake, want no more than that", found.Rate, tries[0].Result.Goodput, again)
	}
}

// A service that answers quickly only in a closed loop does not get the closed
// loop's rate.
func TestCheckLowersTheRate(t *testing.T) {
	var closed, sent atomic.Int32
	found, err := capacity.Find(t.Context(), capacity.Config{
		Try: 300 * ms, SLO: 10 * time.Second, MaxConcurrency: 1, CheckAttainment: 1,
		OnTry: func(try capacity.Try) { closed.Add(1) },
		Send: func(ctx context.Context, _ int, intended time.Time) measure.Outcome {
			if closed.Load() > 0 && sent.Add(1)%3 == 1 {
				return measure.Outcome{Kind: measure.Refused, Reason: "every third in the open loop"}
			}
			time.Sleep(2 * ms)
			return measure.Outcome{Kind: measure.Served}
		},
	})
	if err == nil || !strings.Contains(err.Error(), "not even half of it in an open one") {
		if !found.Unconfirmed {
			t.Errorf("found %+v, error %v; want a failed check", found.Rate, err)
		}
	}
	var loads []float64
	for _, try := range found.Tries {
		if try.Load > 0 {
			loads = append(loads, try.Load)
		}
	}
	if len(loads) < 2 {
		t.Errorf("%d checks, want the first to fail", len(loads))
	}
	for i := 1; i < len(loads); i++ {
		if loads[i] >= loads[i-1] {
			t.Errorf("check %d at %.0f/s after %.0f/s, want less", i, loads[i], loads[i-1])
		}
	}
}

func TestNothingWithinTheSLO(t *testing.T) {
	_, err := capacity.Find(t.Context(), capacity.Config{
		Try: 20 * ms, SLO: ms, MaxConcurrency: 1,
		Send: func(context.Context, int, time.Time) measure.Outcome {
			return measure.Outcome{Kind: measure.Refused, Reason: "always"}
		},
	})
	if err == nil || !strings.Contains(err.Error(), "nothing was served within the SLO of 1ms") {
		t.Errorf("error %v", err)
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := capacity.Find(ctx, capacity.Config{Send: served, SLO: ms}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context canceled", err)
	}
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := capacity.Find(t.Context(), capacity.Config{Try: -1, MaxConcurrency: -1, CheckLoad: 2, CheckAttainment: -1})
	for _, want := range []string{"Send is nil", "SLO is 0s", "Try is -1ns", "MaxConcurrency is -1", "CheckLoad is 2", "CheckAttainment is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// BenchmarkFind prints the capacity found for a station of two exponential
// servers at 1 ms, whose capacity is 2,000/s, under an SLO of 10 ms.
func BenchmarkFind(b *testing.B) {
	st, send := station(b, service.Config{Workers: 2, Mean: ms, Dist: service.Exponential})
	for range b.N {
		found, err := capacity.Find(b.Context(), capacity.Config{Send: send, SLO: 10 * ms})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(found.Rate, "found/s")
		b.ReportMetric(found.Rate/st.Capacity(), "of-nominal")
		b.ReportMetric(float64(len(found.Tries)), "tries")
	}
}
