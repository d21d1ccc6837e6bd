package cost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func cost() experiment.Experiment {
	return experiment.Experiment{
		Name:  "bench/cost",
		Title: "what a gate costs gRPC, net/http and a reverse proxy",
		About: `The servers run in processes of their own on one core, a plain and
a gated one at once, and answer five requests each at a time; what counts is their own processor time for a request: one core's throughput is its inverse. The
proxies forward to like servers. Medians of the runs.`,
		Live: true,
		Run:  runCost,
	}
}

// edges are where a gate can stand.
var edges = []struct {
	name, policy string
	kind         world.Kind
	bar          bool
}{
	{"gRPC, a unary call", "spillgate", world.Credits, false},
	{"net/http, a request", "spillgate/http", world.Plain, false},
	{"reverse proxy, a request", "spillgate/proxy", world.Plain, true},
}

func runCost(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	repeats, length := 5, 5*time.Second // about 100 s, children and all
	if o.Quick {
		repeats, length = 2, 4*time.Second
	}
	times := make([][2][]float64, len(edges)) // µs plain and gated, by repeat
	ratios := make([][]float64, len(edges))
	for n := range repeats * len(edges) {
		k := n % len(edges)
		e := edges[k]
		o.Step(n, repeats*len(edges), e.name)
		w := abreast(length, side{"plain", 10, e.kind, true}, side{"gated", 10, e.kind, false})
		played, err := bed.Play(ctx, w, e.policy, o.Seed+uint64(n/len(edges)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		for _, g := range played.Report.Groups {
			if lost := g.Offered - g.Good; lost > g.Offered/100 {
				return nil, fmt.Errorf("cost: %s: %d of %d requests to the %s server were not answered in time", e.name, lost, g.Offered, g.Name)
			}
		}
		for i, name := range []string{"plain", "gated"} {
			times[k][i] = append(times[k][i], spent(w, played.Looks, name, strings.HasSuffix(e.policy, "/proxy")))
		}
		last := len(times[k][0]) - 1
		ratios[k] = append(ratios[k], times[k][1][last]/times[k][0][last])
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Servers: processor time", Columns: []table.Column{{Name: "what"}, {Name: "plain", Unit: "µs", Format: "%.1f"},
		{Name: "gated", Unit: "µs", Format: "%.1f"}, {Name: "ratio", Format: "%.2f"}, {Name: "throughput lost", Unit: "%", Format: "%.0f"}, {Name: "bar"}}}
	for k, e := range edges {
		ratio, bar := median(ratios[k]), "-"
		if e.bar {
			bar = "< 20 %"
			r.Ceiling("throughput that the gate costs a reverse proxy", " %", 20, 3, 100*(1-1/ratio))
		}
		t.Add(e.name, median(times[k][0]), median(times[k][1]), ratio, 100*(1-1/ratio), bar)
	}
	r.Table = append(r.Table, t)
	return r, nil
}
