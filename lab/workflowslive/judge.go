package workflowslive

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/lab/experiment"
)

const ms = time.Millisecond

// quiet is how long an experiment waits before a run for a machine that has
// nothing else to do.
const quiet = time.Second

// mostLag is the p99 of how late requests may leave: a tenth of the work of the
// shortest, on average, which is a few hundredths of what the slowest take, for a
// comparison of these to within a tenth; at least 3 ms.
func mostLag(s *setting) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i := range s.Flows {
		least = min(least, s.Flows[i].alone())
	}
	return max(least/10, 3*ms)
}

// mostStolen is the share of a processor that a host may take in a second: more is a
// stall that shows in the p99 of a stretch.
const mostStolen = 0.15

// disturbed says why a run does not count, "" if it does.
func disturbed(m made, s *setting) string {
	if m.stolen > mostStolen {
		return fmt.Sprintf("the host took %.0f %% of a processor for a second, more than %.0f %%", 100*m.stolen, 100*mostStolen)
	}
	most := mostLag(s)
	for _, f := range m.flows {
		if !f.Result.Valid {
			return f.Result.Invalid[0]
		}
		if lag := f.Result.SendLag.P99; lag > most {
			return fmt.Sprintf("requests left late, p99 %v, more than %v", lag.Round(100*time.Microsecond), most)
		}
	}
	return ""
}

// job is one run of an experiment.
type job struct {
	control control
	setting setting
	judged  bool
}

// results makes the runs. One that counts and was disturbed is made again, retakes
// times in all; after that r says so, and its figures void what they enter.
func results(ctx context.Context, o experiment.Options, r *experiment.Result, jobs []job, retakes int) ([]made, error) {
	out := make([]made, len(jobs))
	for i, j := range jobs {
		for {
			if o.Progress != nil {
				o.Progress(i, len(jobs), string(j.control))
			}
			machine.AwaitQuiet(ctx, quiet)
			m, err := run(ctx, j.setting, j.control)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", j.control, err)
			}
			out[i] = m
			why := disturbed(m, &j.setting)
			if why == "" || !j.judged {
				break
			}
			if retakes == 0 {
				out[i].disturbed = fmt.Sprintf("%s, seed %d: %s", j.control, j.setting.Seed, why)
				r.Void = append(r.Void, out[i].disturbed)
				break
			}
			retakes--
		}
	}
	if o.Progress != nil {
		o.Progress(len(jobs), len(jobs), "done")
	}
	return out, nil
}

// seeds returns n seeds from that of the options, or in the quick form one.
func seeds(o experiment.Options, n int) []uint64 {
	if o.Quick {
		n = 1
	}
	var all []uint64
	for i := range n {
		all = append(all, o.Seed+uint64(i))
	}
	return all
}

func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(ms) }

func seconds(d time.Duration) float64 { return d.Seconds() }

// refused is the share of the offered requests that were turned away for a reason.
func refused(s *measure.Span, reason string) float64 {
	return per(float64(s.RefusedBy[reason]), float64(s.Offered))
}

// chart draws what f says of each second of the run for each of the workflows.
func chart(title string, y plot.Axis, s *setting, m made, names []string, f func(windows []measure.Span) float64, marks ...plot.Level) *plot.Chart {
	c := &plot.Chart{Title: title, X: plot.Axis{Label: "time", Unit: "s"}, Y: y, Levels: marks}
	for i, flow := range s.Flows {
		if !slices.Contains(names, flow.Name) {
			continue
		}
		line := plot.Series{Name: flow.Name}
		windows := m.flows[i].Result.Windows
		for len(windows) > 0 {
			n := min(len(windows), int(time.Second/m.flows[i].Result.Window))
			line.X = append(line.X, seconds(windows[0].From))
			line.Y = append(line.Y, f(windows[:n]))
			windows = windows[n:]
		}
		c.Series = append(c.Series, line)
	}
	return c
}
