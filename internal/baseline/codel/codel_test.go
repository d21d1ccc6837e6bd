package codel

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/baseline/internal/script"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script.Script{}
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			if td.Cmd == "new" {
				cfg := Config{LIFO: td.HasArg("lifo")}
				td.MaybeScanArgs(t, "slots", &cfg.Slots)
				if td.HasArg("controlled") {
					cfg.Law = Controlled
				}
				d, err := New(cfg)
				if err != nil {
					return err.Error()
				}
				*s = script.Script{Door: d, State: func() string {
					return fmt.Sprintf("running=%d waiting=%d dropping=%v count=%d", d.Running(), d.Waiting(), d.law.dropping, d.law.count)
				}}
				return ""
			}
			return s.Run(td.Input)
		})
	})
}

// The spacing of drops while the delay stays above target is interval ÷ √n, RFC
// 8289 section 5.4: after n drops in one dropping state, interval × Σ 1/√i.
func TestDropsComeFasterByTheSquareRoot(t *testing.T) {
	l := law{target: 5 * time.Millisecond, interval: 100 * time.Millisecond}
	var drops []mono.Time
	for now := mono.Time(1e6); now < mono.Time(3*time.Second); now += 1e5 {
		if l.drop(now, time.Second, false) {
			drops = append(drops, now)
		}
	}
	if len(drops) < 20 {
		t.Fatalf("%d drops in three seconds, want 20 and more", len(drops))
	}
	want := drops[0]
	for n := 1; n < 20; n++ {
		want = want.Add(time.Duration(float64(l.interval) / math.Sqrt(float64(n))))
		if late := drops[n].Sub(want); late < 0 || late > 200*time.Microsecond {
			t.Errorf("drop %d at %v, want %v", n+1, drops[n], want)
		}
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Law: 7, Target: -1})
	for _, want := range []string{"Slots is 0", "Law is 7", "Target is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
