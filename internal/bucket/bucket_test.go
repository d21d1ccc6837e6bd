package bucket

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
)

func mustNew(t testing.TB, cfg Config) *Bucket {
	t.Helper()
	b, err := New(0, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The same calls as in the documentation of x/time/rate, against a table made by
// hand: 10 tokens/s, burst 2.
func TestAllowOracle(t *testing.T) {
	b := mustNew(t, Config{Rate: 10, Burst: 2})
	for i, c := range []struct {
		at   time.Duration
		n    float64
		want bool
	}{
		{0, 1, true},
		{0, 1, true},
		{0, 1, false},
		{99 * time.Millisecond, 1, false},
		{100 * time.Millisecond, 1, true},
		{100 * time.Millisecond, 0, true},
		{250 * time.Millisecond, 2, false}, // 1.5 there
		{250 * time.Millisecond, 1.5, true},
		{240 * time.Millisecond, 0.1, false}, // time went backwards
		{10 * time.Second, 2.1, false},       // over the burst
		{10 * time.Second, 2, true},
		{10 * time.Second, -1, false},
		{10 * time.Second, math.NaN(), false},
	} {
		if got := b.AllowN(mono.Time(c.at), c.n); got != c.want {
			t.Errorf("step %d: AllowN(%v, %v) = %v, want %v", i, c.at, c.n, got, c.want)
		}
	}
}

func TestReserveGoesIntoDebtAndNoFurther(t *testing.T) {
	b := mustNew(t, Config{Rate: 10, Burst: 1, Debt: 2})
	for i, c := range []struct {
		wait time.Duration
		ok   bool
	}{{0, true}, {100 * time.Millisecond, true}, {200 * time.Millisecond, true}, {0, false}} {
		wait, ok := b.Reserve(0, 1)
		if wait != c.wait || ok != c.ok {
			t.Errorf("reservation %d: %v, %v; want %v, %v", i, wait, ok, c.wait, c.ok)
		}
	}
	if b.Allow(mono.Time(200 * time.Millisecond)) {
		t.Error("a token was there while the debt was just paid")
	}
	if !b.Allow(mono.Time(301 * time.Millisecond)) {
		t.Error("no token a tenth of a second after the debt was paid")
	}
}

func TestInfiniteRateLimitsNothingButBurst(t *testing.T) {
	b := mustNew(t, Config{Rate: math.Inf(1), Burst: 3})
	for i := mono.Time(1); i < 100; i++ {
		if !b.AllowN(i, 3) {
			t.Fatalf("refused at %v", i)
		}
	}
}

func TestChangingRateKeepsWhatWasEarned(t *testing.T) {
	b := mustNew(t, Config{Rate: 10, Burst: 10, Empty: true})
	b.SetRate(mono.Time(time.Second/2), 2)
	if got := b.Tokens(mono.Time(time.Second)); math.Abs(got-6) > 1e-9 {
		t.Errorf("%v tokens, want 5 earned at the old rate and 1 at the new", got)
	}
	b.SetBurst(mono.Time(time.Second), 4)
	if got := b.Tokens(mono.Time(time.Second)); got != 4 {
		t.Errorf("%v tokens, want no more than the new burst", got)
	}
	b.SetRate(mono.Time(time.Second), -1)
	b.SetBurst(mono.Time(time.Second), math.Inf(1))
	if rate := b.perNano * 1e9; rate != 2 || b.burst != 4 {
		t.Errorf("rate %v, burst %v: nonsense was taken", rate, b.burst)
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(0, Config{Rate: -1, Burst: math.Inf(1), Debt: math.NaN()})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Rate is -1", "Burst is +Inf", "Debt is NaN"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// No schedule of calls lets more pass than the burst and the refill, the balance
// stays in its bounds, and what ReadyAt promises holds.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Rate:  rapid.Float64Range(0.001, 1e9).Draw(t, "rate"),
			Burst: rapid.Float64Range(0.01, 1e6).Draw(t, "burst"),
			Debt:  rapid.Float64Range(0, 100).Draw(t, "debt"),
		}
		b, err := New(0, cfg)
		if err != nil {
			t.Fatal(err)
		}
		now, passed := mono.Time(0), 0.0
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "dt")))
			n := rapid.Float64Range(0, cfg.Burst).Draw(t, "n")
			if at := b.ReadyAt(now, n); at != mono.Never {
				copied := *b
				if !copied.AllowN(at, n) {
					t.Fatalf("not ready at %v as promised: %v of %v", at, b.Tokens(at), n)
				}
				// Earlier than that it is not, but for the rounding of a balance as
				// large as the burst, in nanoseconds of refill.
				rounding := 2 + at.Sub(now)>>40 + time.Duration(2*cfg.Burst*0x1p-52/(cfg.Rate/1e9))
				copied = *b
				if before := at.Add(-rounding); before > now && copied.AllowN(before, n) {
					t.Fatalf("ready before %v", at)
				}
			}
			if b.AllowN(now, n) {
				passed += n
			}
			if have := b.Tokens(now); have < -cfg.Debt || have > cfg.Burst {
				t.Fatalf("balance %v outside [%v, %v]", have, -cfg.Debt, cfg.Burst)
			}
			if most := cfg.Burst + cfg.Rate*time.Duration(now).Seconds(); passed > most*(1+1e-9) {
				t.Fatalf("%v passed, most is %v", passed, most)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	b := mustNew(t, Config{Rate: 1e6, Burst: 10, Debt: 10})
	now := mono.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 1000
		b.Allow(now)
		b.Reserve(now, 2)
		b.ReadyAt(now, 1)
	}); n != 0 {
		t.Errorf("%v allocations a round, want 0", n)
	}
}

func BenchmarkAllow(b *testing.B) {
	k := mustNew(b, Config{Rate: 1e6, Burst: 10})
	now := mono.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 500
		k.Allow(now)
	}
}
