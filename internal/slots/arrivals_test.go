package slots

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// TestLineAgainstASlice: the rank of a request that ends is its place among those that run,
// as a plain slice has it. Requests older than the bits hold are counted, not told apart.
func TestLineAgainstASlice(t *testing.T) {
	for _, tt := range []struct {
		name   string
		most   int // requests at once
		oldest bool
	}{
		{"few", 5, false}, {"hundreds", 700, false}, {"more than the bits hold", 2 * lineSize, false}, {"one that never ends", 40, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			var l arrivals
			var plain []Place
			now := mono.Time(0)
			for range 6 * lineSize {
				now += 2
				for len(plain) < tt.most && (len(plain) == 0 || rng.IntN(2) == 0) {
					now += 2
					plain = append(plain, l.enter(now, 1))
				}
				i := rng.IntN(len(plain))
				if tt.oldest {
					i = min(max(i, 1), len(plain)-1)
				}
				want := i + 1
				if plain[i].number < l.oldest {
					want = 0
				}
				if got := l.leave(plain[i]); got != want {
					t.Fatalf("rank %d, want %d of %d that run", got, want, len(plain))
				}
				plain = slices.Delete(plain, i, i+1)
			}
			for _, p := range plain {
				l.leave(p)
			}
			if l.older != 0 || l.oldest != l.next || slices.Max(l.bits[:]) != 0 {
				t.Errorf("all have left, and %d older ones run, from %d to %d", l.older, l.oldest, l.next)
			}
		})
	}
}

// TestBatch: which of those that entered together ends first tells nothing.
func TestBatch(t *testing.T) {
	var l arrivals
	ms := mono.Time(time.Millisecond)
	first := l.enter(1*ms, float64(ms))
	together := []Place{l.enter(10*ms, float64(ms)), l.enter(10*ms, float64(ms)), l.enter(11*ms, float64(ms))}
	later := l.enter(13*ms, float64(ms))
	for i := len(together) - 1; i >= 0; i-- {
		if rank := l.leave(together[i]); rank != 2 {
			t.Errorf("request %d of the batch has rank %d, want 2", i, rank)
		}
	}
	if rank := l.leave(later); rank != 2 {
		t.Errorf("the last one has rank %d beside the first, want 2", rank)
	}
	if rank := l.leave(first); rank != 1 {
		t.Errorf("the first one has rank %d, want 1", rank)
	}
}

// ended returns the ranks of n completions where so many run all the time, of which a server
// works on k, first come, first served, or shares itself among all (k = 0).
func ended(running, k, n int, draw func(*rand.Rand) float64) order {
	rng := rand.New(rand.NewPCG(3, uint64(running)))
	left := make([]float64, 0, running) // work of those in line
	for range running {
		left = append(left, draw(rng))
	}
	var o order
	for i := range n + 10*running {
		served := k
		if served == 0 || served > running {
			served = running
		}
		next := 0
		for j := range served {
			if left[j] < left[next] {
				next = j
			}
		}
		done := left[next]
		for j := range served {
			left[j] -= done
		}
		left = append(slices.Delete(left, next, next+1), draw(rng))
		if i >= 10*running {
			o.add(next + 1)
		}
	}
	return o
}

// TestRanksReachTheKnee: of first come, first served with k workers the ranks reach to k,
// however many wait, and lie as far as without a queue; so they tell a line from work that
// is shared, and say nothing of times that are nearly equal.
func TestRanksReachTheKnee(t *testing.T) {
	exponential := func(r *rand.Rand) float64 { return r.ExpFloat64() }
	bimodal := func(r *rand.Rand) float64 {
		if r.IntN(5) == 0 {
			return 4
		}
		return 0.25
	}
	nearly := func(r *rand.Rand) float64 { return 1 + 0.01*r.Float64() }
	for _, tt := range []struct {
		name         string
		draw         func(*rand.Rand) float64
		k            int
		many, fewer  int // that run at the two levels
		top, beneath float64
		says         int
	}{
		{"a line behind 8, exponential", exponential, 8, 24, 10, 8, 8, 1},
		{"a line behind 3, exponential", exponential, 3, 24, 6, 3, 3, 1},
		{"a line behind 40, bimodal", bimodal, 40, 120, 60, 40, 34, 1},
		{"no line: more workers than requests", exponential, 100, 24, 10, 24, 22, -1},
		{"no line: shared", exponential, 0, 24, 10, 24, 22, -1},
		{"a line behind 8, nearly equal times", nearly, 8, 24, 10, 8, 1, 0},
	} {
		a, b := ended(tt.many, tt.k, 500, tt.draw), ended(tt.fewer, tt.k, 500, tt.draw)
		if a.top > tt.top || a.top < tt.beneath {
			t.Errorf("%s: the ranks reach to %v, want from %v to %v", tt.name, a.top, tt.beneath, tt.top)
		}
		if got := contrast(a, b, float64(tt.many), float64(tt.fewer)); got != tt.says {
			t.Errorf("%s: the contrast of %d and %d that run says %d, want %d (%+v, %+v)", tt.name, tt.many, tt.fewer, got, tt.says, a, b)
		}
		if got := contrast(b, a, float64(tt.fewer), float64(tt.many)); got != tt.says {
			t.Errorf("%s: the other way round the contrast says %d, want %d", tt.name, got, tt.says)
		}
	}
	few, same := ended(12, 8, 6, exponential), ended(10, 8, 6, exponential)
	if got := contrast(few, same, 12, 10); got != 0 {
		t.Errorf("six ranks at 12 and 10 that run say %d, want 0: that is chance", got)
	}
}

// TestThroughputRefutesRanks: ranks that seem to show a line do not stand against a
// throughput that fell with the number that runs.
func TestThroughputRefutesRanks(t *testing.T) {
	exponential := func(r *rand.Rand) float64 { return r.ExpFloat64() }
	at := func(n int, throughput float64) point {
		return point{concurrency: float64(n), throughput: throughput, samples: 500, order: ended(n, 8, 500, exponential)}
	}
	for _, tt := range []struct {
		name string
		less float64 // throughput with 10 running, of that with 24
		want bool
	}{
		{"as much", 1, true}, {"a twentieth less", 0.95, true}, {"a third less", 0.67, false},
	} {
		l, err := New(Config{Slack: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed = !tt.want
		l.compare(at(24, 1), at(10, tt.less))
		if l.line.confirmed != tt.want {
			t.Errorf("%s done with 10 than with 24: a line is %v, want %v", tt.name, l.line.confirmed, tt.want)
		}
	}
}

// TestALineDoesLessWithFewerThanItsKnee: that refutes no line. That more than the knee do more does.
func TestALineDoesLessWithFewerThanItsKnee(t *testing.T) {
	exponential := func(r *rand.Rand) float64 { return r.ExpFloat64() }
	at := func(n float64, throughput float64) point {
		return point{concurrency: n, throughput: throughput, samples: 500, order: ended(int(n), 8, 500, exponential)}
	}
	for _, tt := range []struct {
		name      string
		knee      float64
		many, few float64
		less      float64
		want      bool
	}{
		{"13 and 6 of 8 workers", 8, 13, 6, 0.75, true}, {"13 and 6, of 6 that are believed", 6, 13, 6, 0.75, false},
	} {
		l, err := New(Config{Slack: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed, l.knee.at = true, tt.knee
		l.compare(at(tt.many, 1), at(tt.few, tt.less))
		if l.line.confirmed != tt.want {
			t.Errorf("%s, %v of the throughput: a line is %v, want %v", tt.name, tt.less, l.line.confirmed, tt.want)
		}
	}
}
