package share

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/plot"
)

// TestController runs the narrated scripts under testdata/controller. Two kinds of
// driver: "period" feeds a controller by hand, "run" lets the servers of a
// simulated chain have one each.
func TestController(t *testing.T) {
	datadriven.Walk(t, "testdata/controller", func(t *testing.T, path string) {
		var c *Controller
		var w *world
		now := mono.Time(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			number := func(key string, standard int) int {
				d.MaybeScanArgs(t, key, &standard)
				return standard
			}
			length := func(key string) time.Duration {
				text := "0s"
				d.MaybeScanArgs(t, key, &text)
				v, err := time.ParseDuration(text)
				if err != nil {
					d.Fatalf(t, "%s: %v", key, err)
				}
				return v
			}
			switch d.Cmd {
			case "controller":
				var err error
				if c, err = New(Config{MaxHarm: float64(number("harm", 0)) / 100, Ratio: float64(number("ratio", 0)) / 100}); err != nil {
					return err.Error() + "\n"
				}
				c.OnWake(now)
				return fmt.Sprintf("weight=%.3f next=%v\n", c.Weight(), c.NextWake())
			case "period":
				var out strings.Builder
				step := time.Second
				if d.HasArg("after") {
					step = length("after")
				}
				for range number("times", 1) {
					now = now.Add(step)
					for range number("cancels", 0) {
						c.OnCancel(0, length("cancelled-after"))
					}
					e := feed(c, now, number("interactive", 0), number("default", 0), length("interactive-wait"), length("default-wait"))
					fmt.Fprintf(&out, "%v weight=%.3f %v want=%.2f neutral=%.2f\n", now, e.Weight, e.Reason, e.Want, e.Neutral)
				}
				return out.String()
			case "world":
				w = newWorld(uint64(number("seed", 1)), number("hops", 4), float64(number("interactive", 0)), float64(number("default", 0)), 100)
				w.control(Config{})
				return ""
			case "load":
				w.load(float64(number("interactive", 0)), float64(number("default", 0)))
				return ""
			case "run":
				chart := plot.Chart{
					X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "interactive weight, first server", Max: 1},
					Series: []plot.Series{{Name: "weight"}, {Name: "FIFO's", Dashed: true}},
				}
				var reasons [NumReasons]int
				w.reset()
				for range number("seconds", 60) {
					e := w.wake()
					reasons[e.Reason]++
					for i, y := range []float64{e.Weight, e.Neutral} {
						s := &chart.Series[i]
						s.X, s.Y = append(s.X, w.now), append(s.Y, y)
					}
				}
				var out strings.Builder
				if d.HasArg("plot") {
					out.WriteString(chart.Text(72, 10))
				}
				for r, n := range reasons {
					if n > 0 {
						fmt.Fprintf(&out, "%v=%d ", Reason(r), n)
					}
				}
				mean, p95 := w.latency(), w.p95()
				fmt.Fprintf(&out, "\ninteractive %.0f ms, p95 %.0f; default %.0f ms, p95 %.0f\n", mean.Interactive*1e3, p95.Interactive*1e3, mean.Default*1e3, p95.Default*1e3)
				return out.String()
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}
