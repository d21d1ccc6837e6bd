package rates

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/plot"
)

// tiers is a graph of two entries that call two leaves; each request of either
// workflow takes a second of one of a leaf's 100 workers. Or the shortage is at
// the entries, and the leaves are idle.
func tiers(t *testing.T, shortAtEntry bool) (g *graph, entries, leaves []*proc) {
	g = newGraph(t)
	entry, leaf := 1000.0, 100.0
	if shortAtEntry {
		entry, leaf = leaf, entry
	}
	for i := range 2 {
		entries = append(entries, g.add("front", fmt.Sprint("front", i), entry, Config{}))
	}
	for i := range 2 {
		leaves = append(leaves, g.add("store", fmt.Sprint("store", i), leaf, Config{}))
	}
	for _, w := range []string{"heavy", "light"} {
		for _, p := range entries {
			p.handle(w, 1, edge{leaves[0], 0.5}, edge{leaves[1], 0.5})
		}
		for _, p := range leaves {
			p.handle(w, 1)
		}
	}
	return g, entries, leaves
}

// TestLoop draws how the rates of two tiers move when the load steps from half of
// the capacity to 1.7 times that and back, in testdata/loop.
func TestLoop(t *testing.T) {
	datadriven.Walk(t, "testdata/loop", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "step" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			g, entries, leaves := tiers(t, d.HasArg("short-at-entry"))
			short := leaves[0]
			if d.HasArg("short-at-entry") {
				short = entries[0]
			}
			for _, p := range g.procs {
				p.credits = d.HasArg("credits")
			}
			var at, limit, delay, offered []float64
			const most = 160
			entry, below := 0.0, 0.0
			for i := range 240 {
				heavy := 30.0
				if i >= 20 && i < 140 {
					heavy = 150
				}
				for _, p := range entries {
					p.flows["heavy"].offered, p.flows["light"].offered = heavy, 20
				}
				g.step()
				at = append(at, g.now.Sub(0).Seconds())
				limit = append(limit, math.Min(entries[0].rate("heavy"), most))
				delay = append(delay, short.delay().Seconds()*1e3)
				offered = append(offered, heavy)
				if i >= 30 {
					for _, w := range []string{"heavy", "light"} {
						entry += entries[0].flows[w].refused + entries[1].flows[w].refused
						below += leaves[0].flows[w].refused + leaves[1].flows[w].refused
					}
				}
			}
			rates := plot.Chart{
				Title: "rate of the heavy workflow at an entry",
				X:     plot.Axis{Label: "time", Unit: "s"},
				Y:     plot.Axis{Label: "rate", Unit: "requests/s"},
				Series: []plot.Series{
					{Name: "offered", X: at, Y: offered},
					{Name: "limit, none drawn as 160", X: at, Y: limit},
				},
				Levels: []plot.Level{{Name: "fair share", At: 80}},
			}
			queue := plot.Chart{
				Title:  "queueing delay where capacity is short",
				X:      plot.Axis{Label: "time", Unit: "s"},
				Y:      plot.Axis{Label: "delay", Unit: "ms"},
				Series: []plot.Series{{Name: "delay", X: at, Y: delay}},
				Levels: []plot.Level{{Name: "target", At: 10}},
			}
			mean, std := spread(limit[100:140])
			var out strings.Builder
			out.WriteString(rates.Text(100, 16))
			out.WriteString("\n" + queue.Text(100, 10))
			fmt.Fprintf(&out, "\nlast third of the overload: mean %.0f/s, standard deviation %.0f %% of it\n", mean, std/mean*100)
			fmt.Fprintf(&out, "refused from 1 s after the step on: %.0f %% at the entries\n", 100*entry/(entry+below))
			return out.String()
		})
	})
}

func spread(x []float64) (mean, std float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		std += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, math.Sqrt(std)
}

// TestRatesSettle: in the last third of a long overload the rates vary little,
// with and without credits, wherever the shortage is; nearly everything is
// refused at the entry, and the workflow that stays below its share loses
// nothing once the burst has gone.
func TestRatesSettle(t *testing.T) {
	for _, tt := range []struct{ atEntry, credits bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("short at entry %v, credits %v", tt.atEntry, tt.credits), func(t *testing.T) {
			g, entries, leaves := tiers(t, tt.atEntry)
			for _, p := range g.procs {
				p.credits = tt.credits
			}
			for _, p := range entries {
				p.flows["heavy"].offered, p.flows["light"].offered = 150, 20
			}
			var limit []float64
			entry, below, light, done := 0.0, 0.0, 0.0, 0.0
			for i := range 600 {
				g.step()
				limit = append(limit, entries[0].rate("heavy"))
				if i < 10 {
					continue
				}
				for _, p := range entries {
					entry += p.flows["heavy"].refused
				}
				for _, p := range leaves {
					below += p.flows["heavy"].refused
					light += p.flows["light"].refused
					done += p.flows["heavy"].done + p.flows["light"].done
				}
			}
			mean, std := spread(limit[400:])
			t.Logf("rate %.1f ± %.1f, %.2f %% refused below the entry, goodput %.1f of 200/s", mean, std, 100*below/(entry+below), done/59)
			if std > 0.1*mean {
				t.Errorf("standard deviation %.1f of a mean of %.1f, want at most 10 %%", std, mean)
			}
			if mean < 0.95*80 || mean > 80*1.05 {
				t.Errorf("mean %.1f/s, want about 80", mean)
			}
			if below > 0.1*(entry+below) {
				t.Errorf("%.0f refused below the entry of %.0f, want at most a tenth", below, entry+below)
			}
			if light > 0 {
				t.Errorf("%.1f requests refused of the workflow below its share", light)
			}
			if done < 0.95*200*59 {
				t.Errorf("goodput %.1f/s, want at least 95 %% of 200", done/59)
			}
		})
	}
}

// TestFairShareIsKept: whatever is offered, in the long run each workflow at an
// overloaded process gets its demand or its fair share, to 5 %.
func TestFairShareIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(rt, "workflows")
		demands := rapid.SliceOfN(rapid.Float64Range(5, 300), n, n).Draw(rt, "demands")
		costs := rapid.SliceOfN(rapid.Float64Range(0.2, 5), n, n).Draw(rt, "costs")
		g := newGraph(t)
		p := g.add("leaf", "leaf0", 100, Config{})
		loads := make([]float64, n)
		total := 0.0
		for i := range n {
			p.handle(fmt.Sprint("w", i), costs[i]).offered = demands[i]
			loads[i] = demands[i] * costs[i]
			total += loads[i]
		}
		if total < 110 {
			rt.Skip("no overload")
		}
		fair := MaxMin(100, loads, nil)
		let := make([]float64, n)
		const settle, measured = 300, 300
		for i := range settle + measured {
			g.step()
			for w := range n {
				if i >= settle {
					let[w] += p.flows[fmt.Sprint("w", w)].let * costs[w] / (measured * 0.1)
				}
			}
		}
		for w := range n {
			if want := math.Min(loads[w], fair[w]); let[w] < 0.95*want {
				rt.Fatalf("w%d wants %.1f, its fair share is %.1f, it gets %.2f; all get %.2f", w, loads[w], fair[w], let[w], let)
			}
		}
	})
}
