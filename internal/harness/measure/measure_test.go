package measure

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/spillgate/spillgate/internal/seeded"
)

const ms = time.Millisecond

func newRecorder(t testing.TB, start time.Time) *Recorder {
	t.Helper()
	r, err := NewRecorder(Config{SLO: 10 * ms})
	if err != nil {
		t.Fatal(err)
	}
	r.Start(start)
	return r
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := NewRecorder(Config{SLO: -1, Window: 3})
	for _, want := range []string{"SLO is -1ns", "Window is 3ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// One request of every fate, at instants that put arrivals and endings into
// different windows.
func TestWhereThingsAreCounted(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	r := newRecorder(t, start)

	good := r.Begin(at(95 * ms)) // window 0, answered in window 1, within the SLO
	good.Sent(at(96 * ms))
	good.End(at(104*ms), Outcome{Kind: Served})

	slow := r.Begin(at(110 * ms)) // served, but late
	slow.Sent(at(110 * ms))
	slow.End(at(310*ms), Outcome{Kind: Served})

	refused := r.Begin(at(120 * ms))
	refused.Sent(at(120 * ms))
	refused.End(at(121*ms), Outcome{Kind: Refused, Reason: "queue"})

	failed := r.Begin(at(120 * ms))
	failed.Sent(at(120 * ms))
	failed.End(at(121*ms), Outcome{Kind: Failed, Reason: "reset"})

	late := r.Begin(at(120 * ms))
	late.Sent(at(120 * ms))
	late.End(at(190*ms), Outcome{Kind: TimedOut})

	cut := r.Begin(at(130 * ms))
	cut.Sent(at(130 * ms))
	if live := r.Live(at(330 * ms)); live.InFlight != 1 || live.Oldest != 200*ms {
		t.Errorf("in flight %d, oldest %v; want 1, 200ms", live.InFlight, live.Oldest)
	}
	cut.End(at(340*ms), Outcome{Kind: Unfinished})
	r.Skip(at(350 * ms))

	res := r.Result(at(400 * ms))
	want := Counts{Offered: 7, NotSent: 1, Sent: 6, Served: 2, Good: 1, Refused: 1, Failed: 1, TimedOut: 1, Unfinished: 1, OnTime: 1}
	if res.Total.Counts != want {
		t.Errorf("totals\n got %+v\nwant %+v", res.Total.Counts, want)
	}
	if got := res.Total.RefusedBy["queue"]; got != 1 {
		t.Errorf("refused by queue = %d, want 1", got)
	}
	if got := res.Total.FailedBy["reset"]; got != 1 {
		t.Errorf("failed by reset = %d, want 1", got)
	}
	if got := res.Total.Attainment; got != 1.0/7 {
		t.Errorf("attainment %v, want 1/7: it is over offered requests", got)
	}
	if got := res.Total.Oldest; got != 210*ms {
		t.Errorf("oldest %v, want 210ms", got)
	}
	if got := res.Total.Goodput; got != 2.5 {
		t.Errorf("goodput %v/s, want 1 in 0.4 s", got)
	}
	type row struct{ offered, onTime, good, served uint64 }
	var rows []row
	for _, w := range res.Windows {
		rows = append(rows, row{w.Offered, w.OnTime, w.Good, w.Served})
	}
	if wantRows := []row{{1, 1, 0, 0}, {5, 0, 1, 1}, {0, 0, 0, 0}, {1, 0, 0, 1}}; !slices.Equal(rows, wantRows) {
		t.Errorf("windows %v, want %v", rows, wantRows)
	}
	if !slices.ContainsFunc(res.Remarks, func(s string) bool { return strings.HasPrefix(s, "1 of 7 requests were not sent") }) || len(res.Invalid) != 1 {
		t.Errorf("remarks %q and invalid for %q, want a remark on the request not sent and the lag alone as a reason", res.Remarks, res.Invalid)
	}
	if _, err := json.Marshal(res); err != nil {
		t.Errorf("Result is not JSON-able: %v", err)
	}
}

func TestLateGeneratorMakesTheRunInvalid(t *testing.T) {
	for _, c := range []struct {
		lag   time.Duration
		valid bool
	}{{ms / 2, true}, {2 * ms, false}} { // SLO 10 ms, so 1 ms is the most
		start := time.Now()
		r := newRecorder(t, start)
		for i := range 100 {
			intended := start.Add(time.Duration(i) * ms)
			op := r.Begin(intended)
			op.Sent(intended.Add(c.lag))
			op.End(intended.Add(c.lag+ms), Outcome{Kind: Served})
		}
		res := r.Result(start.Add(101 * ms))
		if res.Valid != c.valid {
			t.Errorf("lag %v: valid=%v %q, want %v", c.lag, res.Valid, res.Invalid, c.valid)
		}
		if got := res.Total.Latency.P50; got < c.lag+ms || got > c.lag+ms+ms/100 {
			t.Errorf("lag %v: latency p50 %v does not include the lag", c.lag, got)
		}
	}
}

func TestSecondCallsDoNotCount(t *testing.T) {
	start := time.Now()
	r := newRecorder(t, start)
	op := r.Begin(start)
	for range 2 {
		op.Sent(start)
	}
	for range 2 {
		op.End(start, Outcome{Kind: Served})
	}
	op.Sent(start)
	got := r.Result(start.Add(ms))
	if got.Total.Sent != 1 || got.Total.Served != 1 || got.SendLag.Count != 1 {
		t.Errorf("%+v, want one of each", got.Total.Counts)
	}
}

// The oldest request in flight is found whatever the order of ending.
func TestOldestInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		r, err := NewRecorder(Config{SLO: ms})
		if err != nil {
			t.Fatal(err)
		}
		r.Start(start)
		open := map[*Op]time.Duration{}
		n := rapid.IntRange(1, 40).Draw(t, "requests")
		for i := range n {
			d := time.Duration(i) * ms
			op := r.Begin(start.Add(d))
			open[op] = d
			for o := range open {
				if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
					o.End(start.Add(d), Outcome{Kind: Served})
					delete(open, o)
				}
			}
			now := d + ms
			var want time.Duration
			for _, b := range open {
				want = max(want, now-b)
			}
			live := r.Live(start.Add(now))
			if live.Oldest != want || live.InFlight != len(open) {
				t.Fatalf("oldest %v of %d, want %v of %d", live.Oldest, live.InFlight, want, len(open))
			}
		}
	})
}

// However many goroutines record at once, totals equal what they did, and the
// windows add up to the totals.
func TestTotalsAreSumsUnderConcurrency(t *testing.T) {
	start := time.Now()
	r := newRecorder(t, start)
	const workers, each = 8, 3000
	var wg sync.WaitGroup
	var mu sync.Mutex
	var want Counts
	wantBy := map[string]uint64{}
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			default:
				r.Live(time.Now())
			}
		}
	}()
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			var c Counts
			by := map[string]uint64{}
			for range each {
				intended := start.Add(time.Duration(rng.IntN(2000)) * ms)
				c.Offered++
				if rng.IntN(10) == 0 {
					r.Skip(intended)
					c.NotSent++
					continue
				}
				op := r.Begin(intended)
				op.Sent(intended)
				c.Sent++
				took := time.Duration(rng.IntN(20)) * ms
				kind := Kind(rng.IntN(int(kinds)))
				reason := fmt.Sprint("reason-", rng.IntN(5))
				op.End(intended.Add(took), Outcome{Kind: kind, Reason: reason})
				switch kind {
				case Served:
					c.Served++
					if took <= 10*ms {
						c.Good++
						c.OnTime++
					}
				case Refused:
					c.Refused++
					by[reason]++
				case Failed:
					c.Failed++
				case TimedOut:
					c.TimedOut++
				case Unfinished:
					c.Unfinished++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			want.add(&c)
			for k, n := range by {
				wantBy[k] += n
			}
		})
	}
	wg.Wait()
	close(stop)
	<-watched
	res := r.Result(start.Add(3 * time.Second))
	if res.Total.Counts != want {
		t.Errorf("totals\n got %+v\nwant %+v", res.Total.Counts, want)
	}
	if fmt.Sprint(res.Total.RefusedBy) != fmt.Sprint(wantBy) {
		t.Errorf("refused by %v, want %v", res.Total.RefusedBy, wantBy)
	}
	var sum Counts
	var latencies uint64
	for _, w := range res.Windows {
		sum.add(&w.Counts)
		latencies += w.Latency.Count
	}
	if sum != want {
		t.Errorf("windows add up to\n    %+v\nwant %+v", sum, want)
	}
	if res.Total.Latency.Count != want.Served || latencies != want.Served || res.Total.Refusal.Count != want.Refused {
		t.Errorf("latency samples %d and %d of %d served, refusal samples %d of %d", res.Total.Latency.Count, latencies, want.Served, res.Total.Refusal.Count, want.Refused)
	}
	if span := r.Span(0, 3*time.Second); span.Counts != want {
		t.Errorf("Span over all = %+v, want %+v", span.Counts, want)
	}
}

func TestReasonsAreBounded(t *testing.T) {
	start := time.Now()
	r := newRecorder(t, start)
	const n = MaxReasons + 50
	for i := range n {
		r.Begin(start).End(start, Outcome{Kind: Refused, Reason: fmt.Sprint("invented-", i)})
	}
	by := r.Result(start.Add(ms)).Total.RefusedBy
	var sum uint64
	for _, c := range by {
		sum += c
	}
	if len(by) != MaxReasons || sum != n || by["other"] != n-(MaxReasons-1) {
		t.Errorf("%d reasons, sum %d, other %d; want %d, %d, %d", len(by), sum, by["other"], MaxReasons, n, n-(MaxReasons-1))
	}
}

// What happens beyond the series' end is kept in its last window.
func TestSeriesIsBounded(t *testing.T) {
	start := time.Now()
	r := newRecorder(t, start)
	r.Skip(start.Add(1000 * time.Hour))
	r.Skip(start.Add(-time.Hour)) // before the start: the first window
	res := r.Result(start)
	if len(res.Windows) != maxWindows || res.Windows[maxWindows-1].Offered != 1 || res.Windows[0].Offered != 1 {
		t.Errorf("%d windows, want %d with one request at either end", len(res.Windows), maxWindows)
	}
}

// A sketch's quantiles are within 1/32 (half a unit below 16 units) of the
// exact ones.
func TestSketchAccuracy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds := rapid.SliceOfN(rapid.Int64Range(0, int64(60*time.Second)), 1, 300).Draw(t, "durations")
		scale := rapid.IntRange(0, 25).Draw(t, "shift")
		var s, halves, other sketch
		for i, d := range ds {
			ds[i] = d >> scale
			s.record(time.Duration(ds[i]))
			if i%2 == 0 {
				halves.record(time.Duration(ds[i]))
			} else {
				other.record(time.Duration(ds[i]))
			}
		}
		halves.add(&other)
		if halves != s {
			t.Fatal("two sketches added differ from one sketch of everything")
		}
		slices.Sort(ds)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			rank := 0
			for rank+1 < len(ds) && float64(rank+1) < q*float64(len(ds)) {
				rank++
			}
			want := time.Duration(ds[rank])
			got := s.quantile(q)
			if slack := max(want/32, 512); got < want-slack-1 || got > want+slack+1 {
				t.Fatalf("quantile %v = %v, exact %v", q, got, want)
			}
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	r := newRecorder(b, time.Now())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			now := time.Now()
			op := r.Begin(now)
			op.Sent(now)
			op.End(now.Add(ms), Outcome{Kind: Served})
		}
	})
}
