package pace_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/pace"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func newAlarm(t testing.TB) *pace.Alarm {
	t.Helper()
	a, err := pace.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestUntilIsNeverEarly(t *testing.T) {
	a := newAlarm(t)
	for _, d := range []time.Duration{-time.Second, 0, 1, 10 * time.Microsecond, pace.Margin, pace.Margin + 1, 3 * time.Millisecond} {
		at := time.Now().Add(d)
		if !a.Until(at) {
			t.Errorf("Until(now%+v) = false, nobody rang", d)
		}
		if early := time.Until(at); early > 0 {
			t.Errorf("Until(now%+v) came back %v early", d, early)
		}
	}
}

func TestRingEndsTheWait(t *testing.T) {
	a := newAlarm(t)
	for _, delay := range []time.Duration{0, time.Millisecond} { // before and during the wait
		rung := make(chan struct{})
		go func() {
			defer close(rung)
			time.Sleep(delay)
			a.Ring()
		}()
		if delay == 0 {
			<-rung
		}
		if a.Until(time.Now().Add(time.Hour)) {
			t.Errorf("Until an hour ahead = true after Ring %v later", delay)
		}
		<-rung
	}
}

func TestRingsBeforeOneWaitCountOnce(t *testing.T) {
	a := newAlarm(t)
	a.Ring()
	a.Ring()
	if a.Until(time.Now()) {
		t.Error("first wait = true, want it ended by the rings")
	}
	if !a.Until(time.Now().Add(time.Millisecond)) {
		t.Error("second wait = false, want it undisturbed")
	}
}

func TestCloseEndsAllWaits(t *testing.T) {
	a := newAlarm(t)
	go func() {
		time.Sleep(time.Millisecond)
		a.Close()
	}()
	for range 2 {
		if a.Until(time.Now().Add(time.Hour)) {
			t.Error("Until an hour ahead = true on a closed alarm")
		}
	}
	a.Ring()
	a.Close()
}

// No ring may be lost, whatever it races with: the waiter sleeps for an hour
// each time and the test hangs if one is.
func TestNoRingIsLost(t *testing.T) {
	a := newAlarm(t)
	const rounds = 2000
	var turn sync.Mutex
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for range rounds {
			a.Until(time.Now().Add(time.Hour))
			turn.Unlock()
		}
	}()
	for range rounds {
		turn.Lock()
		a.Ring()
	}
	<-seen
}

// BenchmarkLag prints how late a wait of about 500 µs ends, for Alarm and for
// time.Sleep beside it.
func BenchmarkLag(b *testing.B) {
	waits := map[string]func(time.Time){
		"time.Sleep": func(at time.Time) { time.Sleep(time.Until(at)) },
	}
	a := newAlarm(b)
	waits["Alarm"] = func(at time.Time) { a.Until(at) }
	for _, name := range []string{"Alarm", "time.Sleep"} {
		b.Run(name, func(b *testing.B) {
			lags := make([]time.Duration, 0, b.N)
			for range b.N {
				at := time.Now().Add(500 * time.Microsecond)
				waits[name](at)
				lags = append(lags, time.Since(at))
			}
			slices.Sort(lags)
			b.ReportMetric(float64(lags[len(lags)/2])/1e3, "p50-lag-µs")
			b.ReportMetric(float64(lags[len(lags)*99/100])/1e3, "p99-lag-µs")
			b.ReportMetric(float64(runtime.GOMAXPROCS(0)), "procs")
		})
	}
}
