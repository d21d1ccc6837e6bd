package share

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestLotteryAgainstOracle simulates the chain with fixed weights: the figures that
// the formulas only approximate, and the conservation law, which is exact.
func TestLotteryAgainstOracle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ interactive, standard, weight, r, d float64 }{
		{30, 30, 0.65, 90.1, 27.3},
		{30, 30, 0.9, 78.5, 30.5},
		{40, 40, 0.65, 144.8, 63.7},
		{40, 40, 0.9, 103.3, 73.9},
		{20, 60, 0.65, 106, 58},
		{20, 60, 0.9, 86, 60},
	} {
		l := Load{Interactive: tt.interactive, Default: tt.standard, Service: 100, Hops: 4}
		w := newWorld(2, 4, tt.interactive, tt.standard, 100)
		w.weights(tt.weight)
		w.run(50)
		w.reset()
		w.run(simulated)
		got := w.latency()
		if !within(got.Interactive*1e3, tt.r, 0.02) || !within(got.Default*1e3, tt.d, 0.02) {
			t.Errorf("%v, %v at %v: %.2f and %.2f ms, want %v and %v to 2 %%", tt.interactive, tt.standard, tt.weight, got.Interactive*1e3, got.Default*1e3, tt.r, tt.d)
		}
		if off, ok := lawDistance(l, got); !ok || math.Abs(off) > 0.02 {
			t.Errorf("%v, %v at %v: %.2f ms is %.3f from the law (%v)", tt.interactive, tt.standard, tt.weight, got, off, ok)
		}
	}
}

const simulated = 4000 // seconds

// TestControllerSettles: after a step of the load the weight, the mean over runs
// and servers, is where it will stay within ten periods, and does not go past
// it by more than a tenth. Means, because a single server decides on some
// hundred requests and follows their chance.
func TestControllerSettles(t *testing.T) {
	t.Parallel()
	const runs, before, after, settle = 12, 40, 60, 10
	for _, tt := range [][2][2]float64{
		{{20, 20}, {40, 40}},
		{{40, 40}, {20, 20}},
		{{10, 40}, {40, 40}},
		{{20, 60}, {40, 40}},
	} {
		start, path := 0.0, make([]float64, after)
		for seed := range uint64(runs) {
			w := newWorld(seed, 4, tt[0][0], tt[0][1], 100)
			w.control(Config{})
			for range before {
				w.wake()
			}
			for _, s := range w.servers {
				start += s.weight / float64(runs*len(w.servers))
			}
			w.load(tt[1][0], tt[1][1])
			for i := range path {
				w.wake()
				for _, s := range w.servers {
					path[i] += s.weight / float64(runs*len(w.servers))
				}
			}
		}
		final := 0.0
		for _, x := range path[after/2:] {
			final += x / float64(after-after/2)
		}
		sign := 1.0
		if final < start {
			sign = -1
		}
		for i, x := range path {
			if i >= settle && !within(x, final, 0.1) {
				t.Errorf("%v: weight %.3f after %d s, want %.3f to a tenth", tt, x, i+1, final)
			}
			if over := sign * (x/final - 1); over > 0.1 {
				t.Errorf("%v: weight %.3f after %d s is %.2f past %.3f", tt, x, i+1, over, final)
			}
		}
	}
}

// TestControllerGoesNoFurther: where the ratio can be met without more, it is met
// about, and the rest is left to the others.
func TestControllerGoesNoFurther(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]float64{{20, 60}, {25, 50}} {
		w := newWorld(6, 4, tt[0], tt[1], 100)
		w.control(Config{})
		for range 100 {
			w.wake()
		}
		w.reset()
		for range 2000 {
			w.wake()
		}
		got := w.latency()
		if ratio := got.Interactive / 0.04 / (got.Default / 0.01); math.Abs(ratio-0.5) > 0.05 {
			t.Errorf("%v: slowdowns are %.3f of each other, want the ratio of 0.5", tt, ratio)
		}
	}
}

// TestControllerHelpsWithinItsGuard compares with one FIFO queue under the same
// arrivals: interactive requests gain, in the mean and at p95, default ones lose
// at most MaxHarm, and the law holds.
func TestControllerHelpsWithinItsGuard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ interactive, standard, gain float64 }{
		{30, 30, 0.20},
		{40, 40, 0.20},
		{20, 60, 0.40},
		{60, 20, 0.05},
	} {
		measure := func(control bool) (mean, tail Latency) {
			w := newWorld(3, 4, tt.interactive, tt.standard, 100)
			step := func() { w.run(1) }
			if control {
				w.control(Config{})
				step = func() { w.wake() }
			}
			for range 60 {
				step()
			}
			w.reset()
			for range 1500 {
				step()
			}
			return w.latency(), w.p95()
		}
		fifo, fifoTail := measure(false)
		got, gotTail := measure(true)
		if gain := 1 - got.Interactive/fifo.Interactive; gain < tt.gain {
			t.Errorf("%v: interactive %.4f s, FIFO %.4f: gain %.2f, want %.2f", tt, got.Interactive, fifo.Interactive, gain, tt.gain)
		}
		if gotTail.Interactive > fifoTail.Interactive {
			t.Errorf("%v: interactive p95 %.4f s, FIFO %.4f", tt, gotTail.Interactive, fifoTail.Interactive)
		}
		// Two means of 1,500 s at 80 % differ by some per cent by chance alone.
		if harm := got.Default/fifo.Default - 1; harm > 0.25+0.03 {
			t.Errorf("%v: default %.4f s, FIFO %.4f: harm %.2f, want at most 0.25", tt, got.Default, fifo.Default, harm)
		}
		l := Load{Interactive: tt.interactive, Default: tt.standard, Service: 100, Hops: 4}
		if off, _ := lawDistance(l, got); math.Abs(off) > 0.06 {
			t.Errorf("%v: %.3f from the law", tt, off)
		}
		if got.Interactive > fifo.Interactive && got.Default > fifo.Default {
			t.Errorf("%v: both classes are slower than with FIFO: %.4f, %.4f", tt, got, fifo)
		}
	}
}

// TestLossGuard: where default callers give up, no more than MaxLoss beyond FIFO's
// do; without the guard more would.
func TestLossGuard(t *testing.T) {
	t.Parallel()
	lost := func(control bool, cfg Config) float64 {
		w := newWorld(4, 4, 40, 45, 100)
		w.patience = 0.2
		step := func() { w.run(1) }
		if control {
			w.control(cfg)
			step = func() { w.wake() }
		}
		for range 200 {
			step()
		}
		w.reset()
		for range 1500 {
			step()
		}
		return float64(w.gaveUp) / float64(w.gaveUp+len(w.taken[work.Default]))
	}
	fifo := lost(false, Config{})
	loose := lost(true, Config{MaxHarm: 100, MaxLoss: 1})
	guarded := lost(true, Config{MaxHarm: 100})
	if guarded > fifo+0.01+0.002 || loose < fifo+0.03 {
		t.Errorf("lost: FIFO %.3f, guarded %.3f, unguarded %.3f; want guarded within 0.01 of FIFO and unguarded far above", fifo, guarded, loose)
	}
}

// TestImpatienceRaisesTheWeight: with a ratio that is met anyway, the weight goes up
// only because interactive callers give up, and the harm guard still holds it.
func TestImpatienceRaisesTheWeight(t *testing.T) {
	run := func(p Patience) (weight float64, reasons [NumReasons]int) {
		w := newWorld(5, 4, 40, 40, 100)
		w.control(Config{Ratio: 10, Patience: p})
		for range 120 {
			reasons[w.wake().Reason]++
			for _, s := range w.servers {
				weight += s.weight / float64(len(w.servers)) / 120
			}
		}
		return weight, reasons
	}
	calm, reasons := run(Patience{{0.5, 0.001}, {0.5, 0.002}})
	if reasons[Impatience] > 0 || reasons[Mean] > 0 || reasons[Tail] > 0 || !within(calm, 0.5, 0.1) {
		t.Errorf("patient callers: weight %.3f, reasons %v, want the neutral 0.5", calm, reasons)
	}
	hurried, reasons := run(Patience{{0.5, 0.5}, {0.5, 2}})
	if reasons[Impatience] == 0 || reasons[Harm] == 0 || hurried < calm+0.05 {
		t.Errorf("impatient callers: weight %.3f, reasons %v, want it raised for impatience and held by harm", hurried, reasons)
	}
}

// feed tells a controller of one period in which all requests were alike.
func feed(c *Controller, now mono.Time, r, d int, waitR, waitD time.Duration) Decision {
	for range r {
		c.OnArrival(work.Interactive)
		c.OnDone(work.Interactive, Sample{Latency: 4 * (waitR + 10*ms), Isolated: 40 * ms, Waited: waitR, Service: 10 * ms})
	}
	for range d {
		c.OnArrival(work.Default)
		c.OnDone(work.Default, Sample{Latency: waitD + 10*ms, Isolated: 10 * ms, Waited: waitD, Service: 10 * ms})
	}
	return c.OnWake(now)
}

// TestWakes: early, late, repeated and backward calls.
func TestWakes(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	start := mono.Time(-5 * time.Second)
	if c.NextWake() > start {
		t.Error("the first wake-up is not due")
	}
	if d := c.OnWake(start); d.Reason != Early || d.Weight != 0.5 || c.NextWake() != start.Add(time.Second) {
		t.Errorf("first call: %+v, next %v", d, c.NextWake())
	}
	for _, at := range []mono.Time{start, start.Add(time.Second - 1), start.Add(-time.Hour)} {
		if d := feed(c, at, 10, 10, 30*ms, 30*ms); d.Reason != Early || d.Weight != 0.5 {
			t.Errorf("at %v: %+v, want nothing", at, d)
		}
	}
	d := feed(c, start.Add(time.Second), 10, 10, 30*ms, 30*ms)
	if d.Reason != Mean || !near(d.Weight, 0.55, 9) {
		t.Errorf("first period: %+v, want one step up", d)
	}
	if d := c.OnWake(start.Add(time.Second)); d.Reason != Early {
		t.Errorf("a second time: %+v, want nothing", d)
	}
	late := start.Add(time.Minute)
	if d := feed(c, late, 2400, 2400, 30*ms, 30*ms); !d.Reason.Changes() || math.Abs(d.Weight/0.55-1) > 0.1+1e-9 || c.NextWake() != late.Add(time.Second) {
		t.Errorf("59 s late: %+v, next %v, want one step and a period from then on", d, c.NextWake())
	}
	if d := c.OnWake(mono.Never); d.Weight != d.Weight || d.Weight <= 0 {
		t.Errorf("at the end of time: %+v", d)
	}
}

// TestOneClassAlone: nothing is concluded from half of the picture.
func TestOneClassAlone(t *testing.T) {
	c, _ := New(Config{})
	c.OnWake(0)
	for i := range mono.Time(20) {
		if d := feed(c, (i+1)*mono.Time(time.Second), 0, 50, 0, 30*ms); d.Reason != Few || d.Weight != 0.5 {
			t.Fatalf("%+v, want the weight left for want of interactive requests", d)
		}
	}
}

// TestControllerProperties drives a controller with anything and checks what holds
// always.
func TestControllerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			MaxStep:   rapid.Float64Range(0.001, 1).Draw(t, "step"),
			MaxWeight: rapid.Float64Range(0.05, 1).Draw(t, "most"),
			Ratio:     rapid.Float64Range(0.01, 3).Draw(t, "ratio"),
			MaxHarm:   rapid.Float64Range(-1, 2).Draw(t, "harm"),
		}
		if rapid.Bool().Draw(t, "hurried") {
			cfg.Patience = Patience{{1, 3}}
		}
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		duration := func(name string) time.Duration {
			if rapid.IntRange(0, 20).Draw(t, name+" wild") == 0 {
				return time.Duration(rapid.Int64().Draw(t, name))
			}
			return time.Duration(rapid.IntRange(0, 1000).Draw(t, name)) * ms
		}
		now := mono.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "periods") {
			for class := range work.NumClasses + 1 {
				if rapid.Bool().Draw(t, "cancels") {
					c.OnCancel(class, duration("after"))
				}
				s := Sample{duration("latency"), duration("isolated"), duration("waited"), duration("service"), duration("allowed")}
				for range rapid.IntRange(0, 40).Draw(t, "requests") {
					c.OnArrival(class)
					c.OnDone(class, s)
				}
			}
			before := c.Weight()
			now = now.Add(duration("dt"))
			d := c.OnWake(now)
			if d.Weight != c.Weight() || !(d.Weight >= MinWeight*(1-1e-9)) || d.Weight > c.cfg.MaxWeight*(1+1e-9) {
				t.Fatalf("weight %v, want %v to %v", d.Weight, MinWeight, c.cfg.MaxWeight)
			}
			if change := math.Abs(d.Weight/before - 1); change > c.cfg.MaxStep*(1+1e-9) || (change > 0) != d.Reason.Changes() {
				t.Fatalf("%v became %v because of %v; a step is %v", before, d.Weight, d.Reason, c.cfg.MaxStep)
			}
			if !(d.Want >= MinWeight && d.Want <= 1) || !(d.Neutral >= MinWeight && d.Neutral <= 1) {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{
		Servers: -1, Period: time.Nanosecond, Ratio: math.NaN(), MaxHarm: math.NaN(), MaxLoss: 2, MaxImpatience: 2,
		MaxWeight: 2, MaxStep: -1, DeadBand: -1, Patience: Patience{{1, -1}}, DefaultPatience: Patience{{0.5, 1}},
	})
	for _, word := range []string{"Servers", "Period", "Ratio", "MaxHarm", "MaxLoss", "MaxImpatience", "MaxWeight", "MaxStep", "DeadBand", "Patience: ", "DefaultPatience: "} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error does not name %s: %v", word, err)
		}
	}
}

// TestTail: interactive requests whose mean is well under the ratio and whose p95 is
// not, because one in ten takes far longer, raise the weight for that.
func TestTail(t *testing.T) {
	run := func(long time.Duration) (reasons [NumReasons]int, last Decision) {
		c, _ := New(Config{Ratio: 1.2})
		c.OnWake(0)
		now := mono.Time(0)
		for range 60 {
			for i := range 40 {
				wait := 20 * ms
				if i%10 == 0 {
					wait = long
				}
				c.OnArrival(work.Interactive)
				c.OnDone(work.Interactive, Sample{Latency: 40*ms + 4*wait, Isolated: 40 * ms, Waited: wait, Service: 10 * ms})
			}
			now = now.Add(time.Second)
			last = feed(c, now, 0, 40, 0, 40*ms)
			reasons[last.Reason]++
		}
		return reasons, last
	}
	if reasons, last := run(20 * ms); reasons[Tail] > 0 || reasons[Mean] > 0 {
		t.Errorf("no tail: %v, %+v, want no reason to go up", reasons, last)
	}
	if reasons, last := run(220 * ms); reasons[Tail] == 0 || reasons[Mean] > 0 || last.Weight < last.Neutral*1.05 {
		t.Errorf("a long tail: %v, %+v, want the weight raised for it alone", reasons, last)
	}
}

// TestTrims: a model that is wrong about the waits, and about who has them, learns.
func TestTrims(t *testing.T) {
	c, _ := New(Config{})
	c.OnWake(0)
	now := mono.Time(0)
	period := func(waitR, waitD time.Duration) {
		now = now.Add(time.Second)
		feed(c, now, 40, 40, waitR, waitD)
	}
	// Constant service at 80 %: 20 ms says the model. 50 ms it is.
	for range 300 {
		period(50*ms, 50*ms)
	}
	if s, _ := c.station(); !within(s.wait, 0.05, 0.05) || !within(c.level, 2.5, 0.05) {
		t.Errorf("wait of all %.4f s, level %.2f, want 0.05 and 2.5", s.wait, c.level)
	}
	// The weight does nothing here: the position is FIFO's whatever it is.
	s, _ := c.station()
	if at, plain := s.shifted(c.weight, c.shift), s.position(c.weight); c.weight < 0.6 || at > plain-0.05 {
		t.Errorf("weight %.2f, position %.3f, without trim %.3f; want the trim to lower it", c.weight, at, plain)
	}
	for range 1000 {
		period(1000*time.Second, 0)
		period(0, 1000*time.Second)
	}
	if !(c.level <= trimMost) || !(math.Abs(c.shift) <= mostShift) {
		t.Errorf("trims %v, %v are out of bounds", c.level, c.shift)
	}
}

// TestDeadlinesTellPatience: a request that carries a deadline says how long its
// caller waits also when it is served long before.
func TestDeadlinesTellPatience(t *testing.T) {
	c, _ := New(Config{})
	c.OnWake(0)
	for i := range 1000 {
		allowed := 2 * time.Second
		if i%4 == 0 {
			allowed = 50 * ms
		}
		c.OnDone(work.Default, Sample{Latency: 20 * ms, Isolated: 10 * ms, Waited: 10 * ms, Service: 10 * ms, Allowed: allowed})
	}
	for i := range mono.Time(10) {
		c.OnWake((i + 1) * mono.Time(time.Second))
	}
	p := c.patience(work.Default)
	if got := p.Outlasts(0.3); len(p) != 2 || math.Abs(got-0.7) > 0.1 {
		t.Errorf("%v: %.2f outlast 0.3 s, want about 0.7", p, got)
	}
}

// TestFarDeadlinesAreNoImpatience: callers who all have a second, and get their
// answers in 50 ms, lose nothing by waiting.
func TestFarDeadlinesAreNoImpatience(t *testing.T) {
	c, _ := New(Config{})
	c.OnWake(0)
	for range 1000 {
		s := Sample{Latency: 50 * ms, Isolated: 20 * ms, Waited: 20 * ms, Service: 10 * ms, Allowed: time.Second}
		c.OnDone(work.Interactive, s)
		c.OnDone(work.Default, s)
	}
	for i := range mono.Time(10) {
		c.OnWake((i + 1) * mono.Time(time.Second))
	}
	for _, class := range []work.Class{work.Default, work.Interactive} {
		if p := c.patience(class); p.Outlasts(0.1) < 0.99 {
			t.Errorf("%v: %v: %.3f outlast 0.1 s, want nearly all", class, p, p.Outlasts(0.1))
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	c, _ := New(Config{})
	c.OnWake(0)
	for range 100 {
		c.OnCancel(work.Interactive, 50*ms)
	}
	now := mono.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		feed(c, now, 20, 20, 20*ms, 20*ms)
		c.OnCancel(work.Default, 30*ms)
	}); n != 0 {
		t.Errorf("%v allocations a period, want none", n)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := Early; int(r) < NumReasons; r++ {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		} else {
			seen[name] = true
		}
	}
	if Reason(200).String() != "unknown" || Reason(200).Changes() {
		t.Error("a reason that does not exist has a name")
	}
}

func BenchmarkOnDone(b *testing.B) {
	c, _ := New(Config{})
	for range 100 {
		c.OnCancel(work.Interactive, 50*ms)
		c.OnCancel(work.Interactive, 500*ms)
	}
	c.OnWake(0)
	c.OnWake(mono.Time(time.Second)) // patience is known now
	b.ReportAllocs()
	for b.Loop() {
		c.OnArrival(work.Interactive)
		c.OnDone(work.Interactive, Sample{Latency: 90 * ms, Isolated: 40 * ms, Waited: 12 * ms, Service: 10 * ms})
	}
}

func BenchmarkOnWake(b *testing.B) {
	c, _ := New(Config{})
	c.OnWake(0)
	now := mono.Time(0)
	for range 200 {
		c.OnCancel(work.Default, 50*ms)
		c.OnCancel(work.Default, 500*ms)
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		feed(c, now, 20, 20, 20*ms, 20*ms)
	}
}
