package bucket

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

// exact is the queue behind a bucket, message by message in the order of arrival.
type exact struct {
	rate, burst, backlog float64
	last                 mono.Time
}

func (q *exact) take(at mono.Time, n float64) float64 {
	q.backlog = max(0, q.backlog-q.rate/1e9*float64(at-q.last)) + n
	q.last = at
	return max(0, q.backlog-q.burst) / q.rate * 1e9
}

// In order the delays are those of the exact queue, whatever the gaps, sizes and limits, and the backlog too.
func TestBinnedEqualsTheExactQueueInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := math.Pow(10, rapid.Float64Range(-1, 7).Draw(t, "log rate"))
		burst := rapid.Float64Range(0, 100).Draw(t, "burst")
		b, q := NewBinned(rate, burst), exact{rate: rate, burst: burst}
		now := mono.Time(rapid.Int64Range(0, 1e12).Draw(t, "start"))
		q.last = now
		changes := 0.0 // each rounds to a nanosecond
		for i := range rapid.IntRange(1, 200).Draw(t, "messages") {
			if gap := rapid.Float64Range(0, 11).Draw(t, "log gap"); gap > 1 {
				now = now.Add(time.Duration(math.Pow(10, gap)))
			}
			n := rapid.SampledFrom([]float64{1, 1, 0, .5, 17}).Draw(t, "n")
			want, got := q.take(now, n), b.Take(now, now, n)
			if math.Abs(float64(got)-want) > 4+2*changes+1e-9*want {
				t.Fatalf("message %d at %v: %v, want %v", i, now, got, time.Duration(want))
			}
			if have := b.Backlog(now); math.Abs(have-q.backlog) > 1e-6*(1+q.backlog)+(4+2*changes)*1e-9*rate {
				t.Fatalf("message %d at %v: backlog %v, want %v", i, now, have, q.backlog)
			}
			if rapid.IntRange(0, 20).Draw(t, "change") == 0 {
				rate *= rapid.Float64Range(.5, 2).Draw(t, "factor")
				burst = rapid.Float64Range(0, 100).Draw(t, "new burst")
				q.rate, q.burst = rate, burst
				b.SetLimit(rate, burst)
				changes++
			}
		}
	})
}

// orders are ways in which a server may come to take what arrived.
var orders = []struct {
	name string
	// taken returns when a message that arrived at an instant, on one of 50 connections, is taken.
	taken func(rng *rand.Rand, at mono.Time, connection int) (when mono.Time, key int64)
}{
	{"in order", func(_ *rand.Rand, at mono.Time, _ int) (mono.Time, int64) { return at, int64(at) }},
	{"reversed in 10 ms", reversed(10 * time.Millisecond)},
	{"reversed in 99 ms", reversed(99 * time.Millisecond)},
	{"random in 1 ms", random(time.Millisecond)},
	{"random in 10 ms", random(10 * time.Millisecond)},
	{"random in 100 ms", random(99 * time.Millisecond)},
	{"later by up to 1 ms", later(time.Millisecond)},
	{"later by up to 100 ms", later(99 * time.Millisecond)},
	{"by connection, 5 ms", batches(5 * time.Millisecond)},
	{"by connection, 50 ms", batches(50 * time.Millisecond)},
	{"by connection, 99 ms", batches(99 * time.Millisecond)},
}

func window(at mono.Time, d time.Duration) mono.Time { return (at/mono.Time(d) + 1) * mono.Time(d) }

func reversed(d time.Duration) func(*rand.Rand, mono.Time, int) (mono.Time, int64) {
	return func(_ *rand.Rand, at mono.Time, _ int) (mono.Time, int64) { return window(at, d), -int64(at) }
}

func random(d time.Duration) func(*rand.Rand, mono.Time, int) (mono.Time, int64) {
	return func(rng *rand.Rand, at mono.Time, _ int) (mono.Time, int64) { return window(at, d), rng.Int64() }
}

func later(d time.Duration) func(*rand.Rand, mono.Time, int) (mono.Time, int64) {
	return func(rng *rand.Rand, at mono.Time, _ int) (mono.Time, int64) {
		return at.Add(time.Duration(rng.Int64N(int64(d)))), 0
	}
}

func batches(d time.Duration) func(*rand.Rand, mono.Time, int) (mono.Time, int64) {
	return func(_ *rand.Rand, at mono.Time, connection int) (mono.Time, int64) {
		return window(at, d), int64(connection)<<40 + int64(at%mono.Time(d))
	}
}

type message struct {
	at, when mono.Time
	key      int64
}

// arrivals returns Poisson messages in the order in which they are taken.
func arrivals(seed uint64, rate float64, d time.Duration, taken func(*rand.Rand, mono.Time, int) (mono.Time, int64)) []message {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := make([]message, 0, int(1.1*rate*d.Seconds()))
	for at := mono.Time(0); at < mono.Time(d); at = at.Add(time.Duration(rng.ExpFloat64() / rate * 1e9)) {
		when, key := taken(rng, at, rng.IntN(50))
		all = append(all, message{at, when, key})
	}
	slices.SortStableFunc(all, func(a, b message) int { return cmp.Or(cmp.Compare(a.when, b.when), cmp.Compare(a.key, b.key)) })
	return all
}

// In every order what is admitted is the rate, to within two in a thousand: shaping lets it through, policing
// allows it, at 0.9, 1.3 and 4 times the load. At no time is it ahead by more than the burst and what
// arrives within the window.
func TestBinnedAdmitsTheRateInEveryOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("plays some million messages")
	}
	const rate, burst = 1000, 26
	const length, warm = 110 * time.Second, 10 * time.Second
	for _, order := range orders {
		for _, load := range []float64{.9, 1.3, 4} {
			name := fmt.Sprintf("%s, load %v", order.name, load)
			shape, police := NewBinned(rate, burst), NewBinned(rate, burst)
			ahead := load * rate * horizon.Seconds() // on average
			ahead += burst + 5*math.Sqrt(ahead)
			var offered, passed, allowed count
			for _, m := range arrivals(7, load*rate, length, order.taken) {
				offered.add(m.at)
				passed.add(m.at.Add(shape.Take(m.at, m.when, 1)))
				if _, ok := police.TakeWithin(m.at, m.when, 1, 0); ok {
					allowed.add(m.at)
				}
			}
			want := min(offered.between(warm, length), rate*(length-warm).Seconds())
			if got := passed.between(warm, length) / want; math.Abs(got-1) > .002 {
				t.Errorf("%s: %.4f of the rate passes", name, got)
			}
			if got := allowed.between(warm, length) / want; load > 1 && math.Abs(got-1) > .002 || got > 1.002 {
				t.Errorf("%s: %.4f of the rate is allowed", name, got)
			}
			for at, sum := 10*time.Millisecond, 0.0; at < length; at += 10 * time.Millisecond {
				sum += passed.between(at-10*time.Millisecond, at)
				if most := ahead + rate*at.Seconds(); sum > most {
					t.Fatalf("%s: %v pass within %v, at most %v are due", name, sum, at, most)
				}
			}
		}
	}
}

// count is how many messages there were by an instant, in steps of 10 ms.
type count []float64

func (c *count) add(at mono.Time) {
	k := int(min(at/1e7, 1e5))
	for len(*c) <= k {
		*c = append(*c, 0)
	}
	(*c)[k]++
}

func (c count) between(from, to time.Duration) (sum float64) {
	for _, n := range c[min(len(c), int(from/1e7)):min(len(c), int(to/1e7))] {
		sum += n
	}
	return sum
}

// Messages that lay in sockets are delayed as seldom as they would have been in order: the bucket forgives
// the order, up to the width of a bin, while a clock that is read on taking them would not.
func TestBinnedForgivesTheOrder(t *testing.T) {
	const rate, burst, load = 11_000, 26, 10_000
	for _, order := range orders {
		b, byClock := NewBinned(rate, burst), NewBinned(rate, burst)
		delayed, late, n := 0.0, 0.0, 0.0
		for _, m := range arrivals(3, load, 50*time.Second, order.taken) {
			n++
			if b.Take(m.at, m.when, 1) > 0 {
				delayed++
			}
			if byClock.Take(m.when, m.when, 1) > 0 {
				late++
			}
		}
		t.Logf("%-24s %.4f delayed, by the clock %.4f", order.name, delayed/n, late/n)
		if got := delayed / n; got > .0095 { // the truth is .0088
			t.Errorf("%s: %.4f of the messages are delayed", order.name, got)
		}
	}
}

// slow is a Binned without a tree: all bins from the first arrival on.
type slow struct {
	rate, burst float64
	origin      mono.Time
	sum, own    []float64
}

func (s *slow) take(at mono.Time, n float64) float64 {
	k, into := int(at.Sub(s.origin)/binWidth), s.rate*float64(at.Sub(s.origin)%binWidth)
	for len(s.sum) <= k {
		s.sum, s.own = append(s.sum, 0), append(s.own, 0)
	}
	s.sum[k], s.own[k] = s.sum[k]+n, max(s.own[k], into)+n
	drain, level := s.rate*float64(binWidth), 0.0
	for i := range k {
		level = max(level+s.sum[i], s.own[i], drain) - drain
	}
	return max(0, max(level+s.sum[k], s.own[k])-into-s.burst) / s.rate
}

// The tree answers as the plain recurrence over all bins does, in any order and over pauses of any length.
func TestBinnedEqualsThePlainRecurrence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := math.Pow(10, rapid.Float64Range(2, 6).Draw(t, "log rate"))
		burst := rapid.Float64Range(0, 30).Draw(t, "burst")
		now := mono.Time(rapid.Int64Range(0, 1e9).Draw(t, "start"))
		b := NewBinned(rate, burst)
		s := slow{rate: rate / 1e9, burst: burst, origin: now.Add(-horizon)}
		for i := range rapid.IntRange(1, 200).Draw(t, "messages") {
			now = now.Add(time.Duration(math.Pow(10, rapid.Float64Range(0, 7).Draw(t, "log gap"))))
			if rapid.IntRange(0, 50).Draw(t, "pause") == 0 {
				now = now.Add(rapid.SampledFrom([]time.Duration{101, 150, 205, 1000}).Draw(t, "long") * time.Millisecond)
			}
			if i == 0 {
				s.origin = now.Add(-horizon)
			}
			stamp := now.Add(-time.Duration(rapid.Int64Range(0, int64(horizon)).Draw(t, "late")))
			n := rapid.SampledFrom([]float64{1, 1, 1, .25, 40}).Draw(t, "n")
			want, got := s.take(stamp, n), b.Take(stamp, now, n)
			if math.Abs(float64(got)-want) > 4+1e-6*want {
				t.Fatalf("message %d of %v, taken at %v: %v, want %v", i, stamp, now, got, time.Duration(want))
			}
		}
	})
}

// A message that is as late as can be does not hide those that came after it, wherever in the ring
// of groups they lie.
func TestBinnedKeepsWhatIsBehindTheLatest(t *testing.T) {
	const group = perGroup * binWidth
	for offset := range time.Duration(groups) {
		b := NewBinned(100, 1)
		b.Take(0, 0, 1)
		at := mono.Time(0).Add(10*time.Second + offset*group)
		for range 5 {
			b.Take(at, at, 1)
		}
		b.Take(at.Add(-horizon), at, 1)
		// Six, of which the early one has gone, less one that is served in 10 ms, and this one.
		later := at.Add(10 * time.Millisecond)
		if got := b.Take(later, later, 1); got != 40*time.Millisecond {
			t.Fatalf("at group %d: delayed by %v, expected 40ms", offset, got)
		}
	}
}

// 1,000 tokens a second, burst 2: a table worked out by hand.
func TestBinnedOracle(t *testing.T) {
	const ms = time.Millisecond
	b := NewBinned(1000, 2)
	for i, c := range []struct {
		stamp, now time.Duration
		n          float64
		want       time.Duration
	}{
		{1000 * ms, 1000 * ms, 1, 0},
		{1000 * ms, 1000 * ms, 1, 0},
		{1000 * ms, 1000 * ms, 1, ms},         // U = 3
		{998 * ms, 1000 * ms, 1, 0},           // before all others, alone: U = 1
		{1000 * ms, 1000 * ms, 1, 2 * ms},     // the earlier one is served by then: U = 4
		{1001 * ms, 1001 * ms, .5, 1500000},   // U = 3.5
		{1005 * ms, 1005 * ms, 1, 0},          // empty again
		{1100 * ms, 1005 * ms, 1, 0},          // from the future: as of now, U = 2; the delay is from its stamp
		{1100 * ms, 1005 * ms, 98, 2*ms + 1},  // U = 100: 98 ms from now, before its stamp by 97+… of them
		{500 * ms, 1010 * ms, 1, 0},           // too old: as of 910 ms
		{1110 * ms, 1110 * ms, -1, 0},         // U = 0
		{1110 * ms, 1110 * ms, math.NaN(), 0}, //
	} {
		got := b.Take(mono.Time(c.stamp), mono.Time(c.now), c.n)
		if i == 8 {
			c.want = 1005*ms + 98*ms - 1100*ms
		}
		if d := got - c.want; d < -2 || d > 2 {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

func TestBinnedPolicesWithoutTaking(t *testing.T) {
	b := NewBinned(1000, 2)
	for i, want := range []bool{true, true, false, false} {
		if delay, ok := b.TakeWithin(0, 0, 1, 0); ok != want || !ok && delay != time.Millisecond {
			t.Errorf("message %d: %v, %v", i, delay, ok)
		}
	}
	if delay, ok := b.TakeWithin(0, 0, 1, time.Millisecond); !ok || delay != time.Millisecond {
		t.Errorf("within a millisecond: %v, %v", delay, ok)
	}
	if got := b.Backlog(0); got != 3 {
		t.Errorf("backlog %v, want 3: what was refused took nothing", got)
	}
	if got := b.Backlog(mono.Time(2 * time.Millisecond)); math.Abs(got-1) > 1e-9 {
		t.Errorf("backlog %v two milliseconds later, want 1", got)
	}
	if got := b.Backlog(mono.Time(time.Hour)); got != 0 {
		t.Errorf("backlog %v an hour later, want 0", got)
	}
}

// The backlog stays when the limit changes, also when the clock had gone on before.
func TestBinnedSetLimitKeepsTheBacklog(t *testing.T) {
	for _, pause := range []time.Duration{0, 99 * time.Microsecond, 7 * time.Millisecond, 101 * time.Millisecond, 200 * time.Millisecond} {
		b := NewBinned(1000, 1)
		b.Take(0, 0, 500)
		at := mono.Time(pause)
		b.TakeWithin(at, at, 1e9, 0) // refused, but time is known
		before := b.Backlog(at)
		b.SetLimit(2000, 10.5)
		if got := b.Backlog(at); math.Abs(got-before) > 2*float64(pause)/1e6+1e-9 {
			t.Errorf("after %v: %v, before the change %v", pause, got, before)
		}
		end := mono.Time(600 * time.Millisecond)
		if got := b.Backlog(end); got != 0 {
			t.Errorf("after %v: %v at the end", pause, got)
		}
		if rate, burst := b.rate, b.burst; rate != 2000 || burst != 10.5 {
			t.Errorf("limit %v, %v", rate, burst)
		}
		if got := b.Take(end, end, 12.5); math.Abs(float64(got-time.Millisecond)) > 2 {
			t.Errorf("delay %v behind the new limit, want 1ms", got)
		}
	}
	b := NewBinned(1, 1)
	b.SetLimit(5, 3) // before the first message
	if got := b.Backlog(0); got != 0 {
		t.Errorf("backlog %v of a new one", got)
	}
	if got := b.Take(0, 0, 4); got != 200*time.Millisecond {
		t.Errorf("%v, want 200ms", got)
	}
}

func TestBinnedOfNonsense(t *testing.T) {
	for _, c := range []struct{ rate, burst float64 }{{0, 1}, {-1, 1}, {math.NaN(), 1}, {1, math.NaN()}, {1e300, -1}, {math.Inf(1), 0}, {1, math.Inf(1)}} {
		b := NewBinned(c.rate, c.burst)
		for _, at := range []mono.Time{math.MinInt64, math.MinInt64 + 5, -1, 0, 1, 1e18, 0, mono.Never - 1, mono.Never} {
			for _, stamp := range []mono.Time{math.MinInt64, 0, at, mono.Never} {
				if d := b.Take(stamp, at, 2); d < 0 {
					t.Errorf("%+v: delay %v", c, d)
				}
				if u := b.Backlog(at); !(u >= 0) {
					t.Errorf("%+v: backlog %v", c, u)
				}
				b.SetLimit(c.rate, c.burst)
			}
		}
	}
	b := NewBinned(0, 1)
	if d := b.Take(0, 0, 1); d != math.MaxInt64 {
		t.Errorf("a bucket without a rate lets a message pass after %v", d)
	}
	if _, ok := b.TakeWithin(0, 0, 1, time.Hour); ok {
		t.Error("a bucket without a rate lets a message pass within an hour")
	}
	slowest := NewBinned(1/(7*24*3600.), 10)
	if d := slowest.Take(0, 0, 1); d != 7*24*time.Hour-maxBacklog { // a burst of 6.5 days
		t.Errorf("one a week: the first waits %v", d)
	}
	if d, u := slowest.Take(0, 0, 1), slowest.Backlog(0); d != math.MaxInt64 || math.Abs(u-1) > 1e-9 {
		t.Errorf("one a week: the second waits %v, backlog %v", d, u)
	}
}

func TestBinnedDoesNotAllocate(t *testing.T) {
	b := NewBinned(1e6, 10)
	rng := rand.New(rand.NewPCG(1, 2))
	now := mono.Time(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += mono.Time(rng.Int64N(1e6))
		b.Take(now-mono.Time(rng.Int64N(1e8)), now, 1)
		b.Backlog(now)
		b.SetLimit(1e6, 11)
	}); n != 0 {
		t.Errorf("%v allocations a message, want 0", n)
	}
}

func BenchmarkBinned(b *testing.B) {
	for _, order := range orders {
		for _, load := range []float64{.9, 10} {
			for _, rate := range []float64{10_000, 1_000_000} {
				d := time.Duration(400_000 / (load * rate) * 1e9)
				all := arrivals(1, load*rate, d, order.taken)
				b.Run(fmt.Sprintf("%s/load=%v/rate=%v", order.name, load, rate), func(b *testing.B) {
					k := NewBinned(rate, 26)
					i, round := 0, mono.Time(0)
					b.ReportAllocs()
					for b.Loop() {
						m := &all[i]
						k.Take(m.at+round, m.when+round, 1)
						if i++; i == len(all) {
							i, round = 0, round+mono.Time(d+horizon)
						}
					}
				})
			}
		}
	}
}
