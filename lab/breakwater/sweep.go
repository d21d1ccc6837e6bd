package breakwater

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

// sweep is a list of controls, each played at every load.
type sweep struct {
	shape          worlds.Shape
	controls       []mesh.Control
	loads          []float64 // as shares of the capacity
	warmup, length time.Duration
}

// play runs all sweeps side by side. Its reports are by sweep, control and load.
func play(ctx context.Context, o experiment.Options, sweeps ...sweep) ([][][]*experiment.Played, error) {
	var cells []experiment.Cell
	for _, s := range sweeps {
		for _, p := range s.controls {
			for _, x := range s.loads {
				c := testbed(o.Seed, p, s.shape, clients, x, s.warmup, s.length)
				c.Name = fmt.Sprintf("%s, %v, %gx", p.Name, s.shape, x)
				cells = append(cells, c)
			}
		}
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	out := make([][][]*experiment.Played, len(sweeps))
	for i, s := range sweeps {
		for range s.controls {
			out[i] = append(out[i], reports[:len(s.loads)])
			reports = reports[len(s.loads):]
		}
	}
	return out, nil
}

// goodput returns answers in time as a share of the capacity.
func goodput(rep *experiment.Played) float64 { return rep.Goodput() / capacity() }

// p99 returns the 99th percentile of the latency, in microseconds.
func p99(rep *experiment.Played) float64 { return microseconds(rep.Total.Latency.Quantile(0.99)) }
