package wild

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The worst seed counts, against the best semaphore of the same seed.
func TestJudge(t *testing.T) {
	r := row{world: &world.World{Objective: 100 * time.Millisecond}, judged: []span{{0, time.Second}}}
	good := func(n int) played {
		return look(r, &experiment.Played{Report: &mesh.Report{BinLength: time.Second, Workflows: make([]mesh.Count, 1), Bins: [][]mesh.Count{{{Offered: 100, Good: n, Late: 100 - n}}}}})
	}
	reports := []played{
		good(90), good(80), good(100), good(60), // ours, plain clients, two semaphores
		good(45), good(50), good(40), good(50),
	}
	contender := []int{0, 1, 2, 3, 0, 1, 2, 3}
	if v := judge(r, reports, contender, 0); v.goodput != 0.9 || v.late != 0.55 {
		t.Errorf("ours: %+v, want 0.9 of the best and 0.55 late", v)
	}
	if v := judge(r, reports, contender, 1); v.goodput != 0.8 {
		t.Errorf("plain clients: %+v, want 0.8 of the best", v)
	}
}

// What the control core must not lose again: callers without a deadline are served,
// and long polls are not taken for slow service.
func TestRowsThatHold(t *testing.T) {
	if testing.Short() {
		t.Skip("two simulated worlds of 13 s")
	}
	for _, r := range rows(false) {
		forever, polled := r.name == "callers wait for ever, 3x", r.held == 8
		if !forever && !polled {
			continue
		}
		s := contenders.Setting{Objective: r.world.Objective, Cores: workers, Service: r.service}
		reports, err := experiment.Run(t.Context(), experiment.Options{}, []experiment.Cell{{World: r.world, Control: contenders.Spillgate(s), Seed: 1, Bin: 100 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		c := reports[0].Between(r.judged[0].from, r.judged[0].to)
		seconds := (r.judged[0].to - r.judged[0].from).Seconds()
		if share := float64(c.Good) / seconds / r.capacity(); forever && share < 0.9 {
			t.Errorf("%s: goodput is %.2f of the capacity, want 0.9 at least", r.name, share)
		}
		if polled && c.AllRefused() > 0 {
			t.Errorf("%s: %d requests refused, want none", r.name, c.AllRefused())
		}
	}
}

// Every world of the tables can be played.
func TestRowsAreWorlds(t *testing.T) {
	for _, r := range rows(false) {
		if mistakes := r.world.Check(); len(mistakes) > 0 {
			t.Errorf("%s: %v", r.name, mistakes)
		}
	}
	for _, g := range greedyRows(false) {
		if mistakes := g.world(world.Credits).Check(); len(mistakes) > 0 {
			t.Errorf("%v: %v", g, mistakes)
		}
	}
}

// Every random world can be played, and a seed gives the same one each time.
func TestAnyWorld(t *testing.T) {
	for seed := range uint64(500) {
		d := anyWorld(seed)
		if mistakes := d.world.Check(); len(mistakes) > 0 {
			t.Errorf("%s (%s): %v", d.world.Name, d.text, mistakes)
		}
		if again := anyWorld(seed); !reflect.DeepEqual(d, again) {
			t.Errorf("seed %d gives %s and then %s", seed, d.text, again.text)
		}
		if c := d.world.WithDefaults().Capacity(0); c > 1.01*mostCapacity {
			t.Errorf("%s (%s) has a capacity of %.0f/s, want %d at most", d.world.Name, d.text, c, mostCapacity)
		}
	}
}

// Every random call graph can be played, a seed gives the same one each time, and the scarcest service
// limits what can be done. That is more than it was drawn for where a single worker is.
func TestAnyGraph(t *testing.T) {
	for seed := range uint64(500) {
		d := anyGraph(seed)
		if mistakes := d.world.Check(); len(mistakes) > 0 {
			t.Errorf("%s (%s): %v", d.world.Name, d.text, mistakes)
			continue
		}
		if again := anyGraph(seed); !reflect.DeepEqual(d, again) {
			t.Errorf("seed %d gives %s and then %s", seed, d.text, again.text)
		}
		if c := d.world.WithDefaults().Capacity(0); c < 0.9*leastRate || math.IsInf(c, 0) {
			t.Errorf("%s (%s) has a capacity of %.0f/s, want a finite one of %d at least", d.world.Name, d.text, c, leastRate)
		}
	}
}
