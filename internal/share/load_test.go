package share

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestAllocation checks what the orders make of a load: milliseconds, servers of
// 100/s, four hops.
func TestAllocation(t *testing.T) {
	tests := []struct {
		interactive, standard  float64
		fifoR, fifoL           float64
		share, both            float64
		priorityR, priorityL   float64
		w65R, w65L, w90R, w90L float64 // simulated, of a weighted lottery
	}{
		{interactive: 30, standard: 30, fifoR: 100, fifoL: 25, share: .62, both: 125, priorityR: 74.3, priorityL: 31.4, w65R: 90.1, w65L: 27.3, w90R: 78.5, w90L: 30.5},
		{interactive: 40, standard: 40, fifoR: 200, fifoL: 50, share: .56, both: 250, priorityR: 93.3, priorityL: 76.7, w65R: 144.8, w65L: 63.7, w90R: 103.3, w90L: 73.9},
		{interactive: 20, standard: 60, fifoR: 200, fifoL: 50, share: .36, both: 250, priorityR: 80, priorityL: 60, w65R: 106, w65L: 58, w90R: 86, w90L: 60},
	}
	for _, tt := range tests {
		l := Load{Interactive: tt.interactive, Default: tt.standard, Service: 100, Hops: 4}
		fifo, _ := l.FIFO()
		if !near(fifo.Interactive*1e3, tt.fifoR, 1) || !near(fifo.Default*1e3, tt.fifoL, 1) {
			t.Errorf("%v: FIFO %v, want %v and %v ms", l, fifo, tt.fifoR, tt.fifoL)
		}
		share, both, _ := l.Separate()
		if !near(share, tt.share, 2) || !near(both*1e3, tt.both, 1) {
			t.Errorf("%v: share %v gives %v, want %v and %v ms", l, share, both, tt.share, tt.both)
		}
		priority, _ := l.Priority()
		if !near(priority.Interactive*1e3, tt.priorityR, 1) || !near(priority.Default*1e3, tt.priorityL, 1) {
			t.Errorf("%v: priority %v, want %v and %v ms", l, priority, tt.priorityR, tt.priorityL)
		}
		for _, at := range []struct{ weight, r, d float64 }{{.65, tt.w65R, tt.w65L}, {.9, tt.w90R, tt.w90L}} {
			got, _ := l.Weighted(at.weight)
			if !within(got.Interactive*1e3, at.r, .02) || !within(got.Default*1e3, at.d, .02) {
				t.Errorf("%v: weight %v gives %.4f, want %v and %v ms to 2 %%", l, at.weight, got, at.r, at.d)
			}
		}
		for _, got := range []Latency{fifo, priority} {
			if off, ok := lawDistance(l, got); !ok || math.Abs(off) > 1e-12 {
				t.Errorf("%v: %v is %v from the law (%v)", l, got, off, ok)
			}
		}
		if off, _ := lawDistance(l, Latency{both, both}); off < 0.2 {
			t.Errorf("%v: separate servers are %v from the law, want far above", l, off)
		}
	}
}

func within(got, want, share float64) bool { return math.Abs(got/want-1) <= share }

// TestSeparateWithTransfer: the share solves the equation it stands for.
func TestSeparateWithTransfer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLoad(t)
		l.Transfer = rapid.Float64Range(0, 1).Draw(t, "transfer")
		if rapid.Bool().Draw(t, "none") {
			l.Transfer = 0
		}
		share, both, ok := l.Separate()
		if !ok {
			t.Fatal("refused")
		}
		r := float64(l.Hops)/(share*l.Service-l.Interactive) + l.Transfer
		d := 1 / ((1-share)*l.Service - l.Default)
		if !within(r, both, 1e-6) || !within(d, both, 1e-6) || share <= 0 || share >= 1 {
			t.Fatalf("share %v: %v and %v, want %v for both", share, r, d, both)
		}
		if fifo, _ := l.FIFO(); l.Transfer == 0 && (both <= fifo.Interactive || both <= fifo.Default) {
			t.Fatalf("separate %v, FIFO %v; expected worse for both", both, fifo)
		}
	})
}

// TestEqualIsNotFair: with callers who give up, equal latencies can be bought by
// losing one class. Interactive requests arrive in full at each hop here.
func TestEqualIsNotFair(t *testing.T) {
	const rate, abandon, service, hops = 60, 2, 100, 4
	latency := func(share float64) (r, d float64, lost float64) {
		a, _ := MarkovQueue(rate, share*service, abandon)
		b, _ := MarkovQueue(rate, (1-share)*service, abandon)
		return hops * (a.Wait + 1/(share*service)), b.Wait + 1/((1-share)*service), b.Lost
	}
	share := crossing(func(x float64) bool { r, d, _ := latency(x); return r < d }, 0.1, 0.8)
	r, d, lost := latency(share)
	if !near(r*1e3, 243.8, 1) || !near(d*1e3, 243.8, 1) || !near(lost*100, 42.9, 1) {
		t.Errorf("share %.4f: %.2f and %.2f ms, %.2f %% of the default class lost; want 243.8, 243.8, 42.9", share, r*1e3, d*1e3, lost*100)
	}
}

func drawLoad(t *rapid.T) Load {
	rho := rapid.Float64Range(0.05, 0.95).Draw(t, "utilization")
	mix := rapid.Float64Range(0.05, 0.95).Draw(t, "mix")
	service := rapid.Float64Range(1, 1000).Draw(t, "service")
	return Load{
		Interactive: rho * mix * service, Default: rho * (1 - mix) * service, Service: service,
		Hops: rapid.IntRange(1, 6).Draw(t, "hops"),
	}
}

// TestWeightedProperties: more weight is better for interactive requests and worse
// for the others; the law holds for every weight; never are both worse
// than in FIFO; and the weight that a position needs gives that position.
func TestWeightedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLoad(t)
		w := rapid.Float64Range(0.01, 0.98).Draw(t, "weight")
		a, _ := l.Weighted(w)
		b, _ := l.Weighted(w + 0.01)
		if b.Interactive > a.Interactive || b.Default < a.Default {
			t.Fatalf("weight %v: %v, a little more: %v", w, a, b)
		}
		if off, ok := lawDistance(l, a); !ok || math.Abs(off) > 1e-9 {
			t.Fatalf("%v from the law", off)
		}
		best, _ := l.Priority()
		fifo, _ := l.FIFO()
		if a.Interactive < best.Interactive*(1-1e-9) || a.Default > best.Default*(1+1e-9) {
			t.Fatalf("%v beats priority, %v", a, best)
		}
		if a.Interactive > fifo.Interactive*(1+1e-9) && a.Default > fifo.Default*(1+1e-9) {
			t.Fatalf("both worse than FIFO: %v against %v", a, fifo)
		}
		r, d, _ := l.utilization()
		s := station{r, d, 1}
		shift := rapid.Float64Range(-2, 2).Draw(t, "shift")
		if back := s.weight(s.shifted(w, shift), shift); math.Abs(back-w) > 1e-6 {
			t.Fatalf("weight %v came back as %v", w, back)
		}
	})
}

// TestPositionAgainstExactChain compares the approximation with the stationary
// distribution of the two queue lengths, solved by iteration.
func TestPositionAgainstExactChain(t *testing.T) {
	for _, load := range []float64{0.3, 0.6, 0.8} {
		for _, mix := range []float64{0.1, 0.25, 0.5, 0.75, 0.9} {
			s := station{load * mix, load * (1 - mix), load / (1 - load)}
			bound := 0.05
			if mix < 0.25 || mix > 0.75 {
				bound = 0.1
			}
			for _, w := range []float64{0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95} {
				exact := (s.last() - exactWait(s, w)) / (s.last() - s.first())
				if got := s.position(w); math.Abs(got-exact) > bound {
					t.Errorf("utilization %v, interactive share %v, weight %v: position %.3f, exact %.3f", load, mix, w, got, exact)
				}
			}
		}
	}
}

// TestWeightOfTheLoadIsNotFIFO: giving a class its share of the load is FIFO only if
// the loads are equal. The smaller class waits longer than in FIFO, because its
// queue is empty when its turn comes more often.
func TestWeightOfTheLoadIsNotFIFO(t *testing.T) {
	for _, tt := range []struct{ interactive, standard, atLoad, neutral float64 }{
		// atLoad: exact T_r in ms with that weight; FIFO has 200.
		{20, 60, 251.2, 0.32},
		{40, 40, 200.0, 0.50},
		{60, 20, 182.9, 0.68},
	} {
		s := station{tt.interactive / 100, tt.standard / 100, 0.04}
		unit := station{s.interactive, s.standard, s.wait * 100} // of a server with rate 1
		w := tt.interactive / (tt.interactive + tt.standard)
		if got := 4 * (exactWait(unit, w)/100 + 0.01) * 1e3; !near(got, tt.atLoad, 1) {
			t.Errorf("%v: exact T_r at weight %v is %.2f ms, want %v", s, w, got, tt.atLoad)
		}
		if got := 4 * (exactWait(unit, tt.neutral)/100 + 0.01) * 1e3; !within(got, 200, 0.02) {
			t.Errorf("%v: exact T_r at weight %v is %.2f ms, want FIFO's 200", s, tt.neutral, got)
		}
		if got := s.weight(s.fifo(), 0); math.Abs(got-tt.neutral) > 0.03 {
			t.Errorf("%v: neutral weight %.3f, want about %v", s, got, tt.neutral)
		}
	}
}

// exactWait returns the interactive class's mean wait, in service times, when
// both have one rate of service. The states are the two lengths of the
// queues while the server is busy; Gauss and Seidel's iteration.
func exactWait(s station, w float64) float64 {
	load := s.interactive + s.standard
	n := int(10/(1-load) + 20)
	p := make([]float64, (n+1)*(n+1))
	p[0] = 1
	for diff := 1.0; diff > 1e-8; {
		diff = 0
		sum := 0.0
		for i := 0; i <= n; i++ {
			for j := 0; j <= n; j++ {
				k := i*(n+1) + j
				in, out := 0.0, 1.0
				if i > 0 {
					in += s.interactive * p[k-n-1]
				}
				if j > 0 {
					in += s.standard * p[k-1]
				}
				if k == 0 {
					in += p[0] // the server empties and fills again
				}
				if i < n {
					take := 1.0
					if j > 0 {
						take = w
					}
					in += take * p[k+n+1]
					out += s.interactive
				}
				if j < n {
					take := 1.0
					if i > 0 {
						take = 1 - w
					}
					in += take * p[k+1]
					out += s.standard
				}
				diff += math.Abs(in/out - p[k])
				p[k] = in / out
				sum += p[k]
			}
		}
		for k := range p {
			p[k] /= sum
		}
		diff /= sum
	}
	waiting := 0.0
	for k, q := range p {
		waiting += float64(k/(n+1)) * q
	}
	busy := load // the chain is given that the server is busy
	return busy * waiting / s.interactive
}

// lawDistance returns how far latencies are from Kleinrock's conservation law, as
// a share of what the law says: above 0, the server did worse than any order
// needs to, because it idled with work at hand or did extra work; below 0, the
// latencies are not those of all requests. The law: the sum over the classes of
// arrival rate × latency at a server is what it is under FIFO.
func lawDistance(l Load, got Latency) (float64, bool) {
	fifo, ok := l.FIFO()
	sum := func(t Latency) float64 {
		return l.Interactive*(t.Interactive-l.Transfer)/float64(l.Hops) + l.Default*t.Default
	}
	if !ok || !(sum(fifo) > 0) || !nonNegative(got.Interactive) || !nonNegative(got.Default) {
		return 0, false
	}
	return sum(got)/sum(fifo) - 1, true
}
