package wild

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/experiment"
)

// TestTwentyPoliteAddressesBesideAFlood: one address sends ten times the capacity, in no way obedient, and twenty each
// half of an equal share. Where senders take turns these get what they ask for within the objective, in every order.
func TestTwentyPoliteAddressesBesideAFlood(t *testing.T) {
	const objective = 200 * time.Millisecond
	g := greedy{20 * time.Millisecond, 0.5, 10}
	orders := []schedule.Order{schedule.FIFO, schedule.EDF, schedule.LSTF, schedule.SJF}
	var cells []experiment.Cell
	for _, order := range orders {
		cfg := admission.Config{Objective: objective, NoCredit: true, Schedule: schedule.Config{Senders: 1024, Order: order}}
		control := mesh.Control{Name: order.String(), Door: func(_ uint64, at mesh.Place) (baseline.Door, error) { return mesh.NewNode(cfg, at) }}
		for seed := range uint64(2) {
			cells = append(cells, experiment.Cell{Name: g.String(), World: g.world(world.Credits), Control: control, Seed: 1 + seed})
		}
	}
	reports, err := experiment.Run(context.Background(), experiment.Options{}, cells)
	if err != nil {
		t.Fatal(err)
	}
	row := g.row()
	for i, r := range reports {
		polite := &r.Seen.Groups[0]
		served, all := float64(polite.Good)/float64(polite.Offered), r.Goodput()/row.capacity()
		if served < politeFloor || polite.P99 > objective || all < 0.9 {
			t.Errorf("%s, seed %d: the polite ones get %.3f of what they ask for, p99 %v, and all %.3f of the capacity",
				cells[i].Control.Name, cells[i].Seed, served, polite.P99, all)
		}
	}
}
