package seda

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/script"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script.Script{}
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			if td.Cmd == "sender" {
				cfg := Config{Target: 100 * time.Millisecond, MaxInitRate: 2, MaxWait: 400 * time.Millisecond, QueueLimit: 2}
				c, err := New(cfg)
				if err != nil {
					return err.Error()
				}
				*s = script.Script{Sender: c, State: func() string {
					return fmt.Sprintf("rate=%.3f waiting=%d", c.Rate(), c.Waiting())
				}}
				return ""
			}
			return s.Run(td.Input)
		})
	})
}

// One measuring window of equal response times, from a fresh sender with rate 2:
// the smoothed percentile is 0.3 × rtt, so err = 0.3·rtt/target − 1.
func TestOracle(t *testing.T) {
	target := 80 * time.Microsecond
	for _, c := range []struct {
		what string
		rtt  time.Duration
		want float64
	}{
		{"err −1 + 0.3: rate − (err + 0.1)·40", 80 * time.Microsecond, 2 + (0.7-0.1)*40},
		{"err just above −0.5: stay", 134 * time.Microsecond, 2},
		{"err just below −0.5: grow", 133 * time.Microsecond, 2 + (0.50125-0.1)*40},
		{"between: stay", 200 * time.Microsecond, 2},
		{"err > 0: ÷ 1.04, not below the least", 300 * time.Microsecond, 2},
	} {
		s, err := New(Config{Target: target, MaxInitRate: 2})
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			s.OnReply(1, nil, c.rtt, baseline.Feedback{})
		}
		if math.Abs(s.Rate()-c.want) > 1e-3 {
			t.Errorf("%s: rate %v, want %v", c.what, s.Rate(), c.want)
		}
	}
}

func TestDecreaseDividesAndThePercentileDecides(t *testing.T) {
	slow := func(q float64) float64 {
		s, err := New(Config{Target: time.Millisecond, Percentile: q, MinRate: 1, Increase: 100})
		if err != nil {
			t.Fatal(err)
		}
		s.rate = 50
		for window := range 10 {
			for i := range 100 {
				rtt := 10 * time.Microsecond
				if i%20 == 0 { // one in twenty is slow
					rtt = 100 * time.Millisecond
				}
				s.OnReply(mono.Time(window), nil, rtt, baseline.Feedback{})
			}
		}
		return s.Rate()
	}
	if got, want := slow(0.99), 50/math.Pow(1.04, 10); math.Abs(got-want) > 1e-6 {
		t.Errorf("by p99 the rate is %v, want it divided ten times, %v", got, want)
	}
	if got := slow(0.90); got < 50 {
		t.Errorf("by p90 the rate is %v, want it grown: fewer than a tenth were slow", got)
	}
}

func TestFirstRateIsByChanceInItsRange(t *testing.T) {
	seen := map[float64]bool{}
	for seed := range uint64(50) {
		s, err := New(Config{Target: 1, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if s.Rate() < 2 || s.Rate() > 8 {
			t.Errorf("seed %d: rate %v, want 2 to 8", seed, s.Rate())
		}
		seen[s.Rate()] = true
	}
	if len(seen) < 40 {
		t.Errorf("only %d different rates from 50 seeds", len(seen))
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Decrease: 1, Percentile: 1, MinRate: math.NaN(), QueueLimit: -1})
	for _, want := range []string{"Target is 0s", "Decrease 1", "Percentile is 1", "NaN", "-1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
