package workflows

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func leaf() experiment.Experiment {
	return experiment.Experiment{
		Name:  "compose/leaf",
		Title: "only the leaf is overloaded: where is it shed, and how much work is wasted",
		About: `A chain of three tiers, and one of four, steps from half of what its last tier can do to twice as much; the other
tiers could do four times as much. What is refused at the entry costs nobody anything, what is refused further down
has cost the tiers before. Counted from 1 s after the step, and with four tiers from 600 ms after it: two periods of
the rates for each tier.`,
		Run: runLeaf,
	}
}

func runLeaf(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	up, length := 3*time.Second, 13*time.Second
	all := seeds(o, 5, 2)
	controls := []mesh.Control{whole(), mesh.CreditsRates(), mesh.Rates(rates.Config{}), mesh.Credits(), mesh.Priorities(), mesh.Market(), mesh.Timeouts()}
	kinds := []struct {
		tiers int
		after time.Duration
	}{{3, time.Second}, {4, 600 * ms}}
	var cells []cell
	for _, kind := range kinds {
		for _, c := range controls {
			for _, seed := range all {
				steps := []mesh.Change{{Rate: 0.5 * leafCapacity()}, {At: up, Rate: 2 * leafCapacity()}}
				cells = append(cells, cell{name: named(c, seed, fmt.Sprint(kind.tiers, " tiers")), world: chain(seed, c, kind.tiers, steps, length),
					looks: []time.Duration{up + kind.after, length}})
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "The leaf at twice its capacity, mean of the seeds", Columns: []table.Column{{Name: "tiers"}, {Name: "control"},
		{Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "refused at the entry", Unit: "of refusals", Format: "%.3f"},
		{Name: "wasted", Unit: "of work", Format: "%.3f"}, {Name: "gave up", Unit: "of offered", Format: "%.4f"}, {Name: "p99", Unit: "ms", Format: "%.0f"}}}
	for a, kind := range kinds {
		for b, c := range controls {
			var good, entry, wasted, late, p99 []float64
			var least, most worst
			for k := range all {
				rep := &out[(a*len(controls)+b)*len(all)+k]
				n := rep.Between(up+kind.after, length, 0)
				good = append(good, float64(n.Good)/(length-up-kind.after).Seconds()/leafCapacity())
				entry = append(entry, atEntry(rep.at[0], rep.at[1]))
				wasted = append(wasted, n.WastedShare())
				late = append(late, per(float64(n.GaveUp+n.Late+n.TimedOut), float64(n.Offered)))
				p99 = append(p99, milliseconds(n.Latency.Quantile(0.99)))
				least.low(entry[k])
				most.high(wasted[k])
			}
			t.Add(kind.tiers, c.Name, mean(good), mean(entry), mean(wasted), mean(late), mean(p99))
			if b == 0 {
				at := fmt.Sprintf(", %d tiers, from %v after the step", kind.tiers, kind.after)
				r.Floor("refused at the entry"+at, " of refusals", 0.9, 0, least.get())
				r.Ceiling("wasted"+at, " of work", 0.1, 0, most.get())
			}
		}
	}
	t.Note = "At the entry: by clients, or at the first tier. The bars are of " + controls[0].Name + "."
	r.Table = []*table.Table{t}
	return r, nil
}
