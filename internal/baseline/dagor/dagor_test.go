package dagor

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/baseline/internal/script"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script.Script{}
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			switch td.Cmd {
			case "door":
				cfg := Config{}
				td.MaybeScanArgs(t, "slots", &cfg.Slots)
				if td.HasArg("stepwise") {
					cfg.Law, cfg.Threshold = Stepwise, 30*time.Microsecond
				}
				d, err := New(cfg)
				if err != nil {
					return err.Error()
				}
				*s = script.Script{Door: d, State: func() string {
					return fmt.Sprintf("level=%d running=%d waiting=%d", d.Level(), d.Running(), d.Waiting())
				}}
				return ""
			case "sender":
				c := NewSender(1)
				*s = script.Script{Sender: c, State: func() string { return fmt.Sprintf("level=%d", c.Level()) }}
				return fmt.Sprintf("level=%d", c.Level())
			}
			return s.Run(td.Input)
		})
	})
}

// The published algorithm by hand: 1,000 requests, ten each of the priorities 0 to
// 99, all admitted.
func TestHistogramOracle(t *testing.T) {
	fill := func(level int) *histogram {
		h := newHistogram(Config{Threshold: 20 * time.Millisecond, Window: time.Second, Requests: 1 << 30})
		h.level = level
		for i := range 1000 {
			h.onArrival(0, work.Priority(i%100), i%100 <= level)
		}
		return h
	}
	for _, c := range []struct {
		what       string
		level      int
		overloaded bool
		want       int
	}{
		// 5 % of 1,000 are 50, so five priorities of ten go; those from 100 up
		// are empty and are passed over.
		{"overload from the top", 127, true, 94},
		{"overload from 99", 99, true, 94},
		// 500 admitted: 25 must go, three priorities.
		{"overload from the middle", 49, true, 46},
		{"overload at the bottom", 0, true, 0},
		// 1 % of 1,000 are ten: one priority comes back.
		{"recovery from the middle", 49, false, 50},
		{"recovery at the end of what arrives", 99, false, 127},
	} {
		h := fill(c.level)
		h.move(c.overloaded)
		if h.level != c.want {
			t.Errorf("%s: level %d, want %d", c.what, h.level, c.want)
		}
	}
}

// 0.8 and 0.2 a look: after n looks at a constant delay D the smoothed one is
// D × (1 − 0.8ⁿ). The level moves once a window and only if requests came.
func TestStepwiseOracle(t *testing.T) {
	s := newStepwise(Config{Threshold: 30 * time.Microsecond, Window: time.Millisecond, Requests: 2000, Monitor: 10 * time.Microsecond})
	s.onArrival(0, 0, true)
	for i := 1; i <= 99; i++ {
		s.onWake(mono.Time(i*10_000), 40*time.Microsecond)
	}
	if want := 40_000 * (1 - math.Pow(0.8, 99)); math.Abs(s.delay-want) > 1e-6 {
		t.Errorf("smoothed delay %v, want %v", s.delay, want)
	}
	if s.get() != firstLevel {
		t.Errorf("level %d before the window ended, want %d", s.get(), firstLevel)
	}
	s.onWake(1_000_000, 40*time.Microsecond)
	if want := 32 * 0.95; s.level != want {
		t.Errorf("level %v after an overloaded window, want %v", s.level, want)
	}
	for i := 101; i <= 300; i++ {
		s.onWake(mono.Time(i*10_000), 0)
	}
	if want := 32 * 0.95; s.level != want {
		t.Errorf("level %v moved in a window without requests, want %v", s.level, want)
	}
	for range 2000 {
		s.onArrival(3_000_000, 0, true)
	}
	s.onWake(3_010_000, 0)
	if want := 32*0.95 + 1.28; math.Abs(s.level-want) > 1e-9 {
		t.Errorf("level %v after 2,000 requests without delay, want %v", s.level, want)
	}
	if at := s.wake(); at != mono.Never {
		t.Errorf("idle, it wants to be woken at %v", at)
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Law: Stepwise, Window: -1})
	for _, want := range []string{"Slots is 0", "Threshold is 0s", "-1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
