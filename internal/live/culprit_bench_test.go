package live

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/work"
)

type kind string

func (k kind) Kind() string { return string(k) }

// BenchmarkCulprit compares a gate that looks for culprits with one that does not, in
// turns within one run, so that the machine is the same for both: "ratio" is what an
// admission and a departure cost with, against without, in the median turn.
func BenchmarkCulprit(b *testing.B) {
	for _, mode := range []culprit.Mode{culprit.Monitor, culprit.Enforce} {
		b.Run(mode.String(), func(b *testing.B) { compareCulprit(b, mode) })
	}
}

func compareCulprit(b *testing.B, mode culprit.Mode) {
	open := func(m culprit.Mode) *Gate {
		g, err := NewGate(GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}, Culprit: CulpritConfig{Mode: m}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { g.Close() })
		return g
	}
	gates := [2]*Gate{open(culprit.Off), open(mode)}
	var tickets [2]Ticket
	var spent [2][]time.Duration // of each turn
	const turn = 500
	r := Request{Kind: kind("/shop.Store/Read")}
	ctx := context.Background()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		which := n / turn % 2
		if n++; n%turn != 1 {
			continue
		}
		began := time.Now()
		for range turn {
			if err := gates[which].Admit(ctx, r, &tickets[which]); err != nil {
				b.Fatal(err)
			}
			tickets[which].Watch(ctx)
			tickets[which].Cancelled() // as edges ask
			tickets[which].Leave(work.Done)
			tickets[which].Unwatch()
		}
		spent[which] = append(spent[which], time.Since(began))
	}
	if len(spent[1]) > 0 {
		median := func(d []time.Duration) float64 {
			slices.Sort(d)
			return float64(d[len(d)/2])
		}
		b.ReportMetric(median(spent[0])/turn, "ns-without")
		b.ReportMetric(median(spent[1])/turn, "ns-with")
		b.ReportMetric(median(spent[1])/median(spent[0]), "ratio")
	}
}
