package live

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline/semaphore"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
)

// What follows from the objective follows from the new one: the network is looked at as often, culprits are
// sought as often, and victims kept for as long, as by a gate that had it from the start. The audit log
// can be replayed across the change.
func TestSetObjectiveReachesEverything(t *testing.T) {
	var log bytes.Buffer
	const before, after = 100 * time.Millisecond, 260 * time.Millisecond
	made := func(d time.Duration, to *bytes.Buffer) *Gate {
		g, err := NewGate(GateConfig{Config: admission.Config{Objective: d}, Culprit: CulpritConfig{Mode: culprit.Enforce, Source: "s", Audit: to}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		g.WatchNetwork()
		return g
	}
	g, fresh := made(before, &log), made(after, new(bytes.Buffer))
	g.finder.look()
	if err := g.SetObjective(after); err != nil {
		t.Fatal(err)
	}
	g.finder.look()
	if got, want := g.node.Gate().Config(), fresh.node.Gate().Config(); got.Hold != want.Hold || got.TargetDelay != want.TargetDelay || got.Slots.Slack != want.Slots.Slack {
		t.Errorf("the core has\n%+v, expected\n%+v", got, want)
	}
	if g.lag.Load().every() != fresh.lag.Load().every() || g.finder.every != fresh.finder.every || g.finder.engine.Objective != after || g.Objective() != after {
		t.Errorf("network %v, culprits %v, engine %v, objective %v; expected %v, %v, %v twice", g.lag.Load().every(), g.finder.every, g.finder.engine.Objective, g.Objective(),
			fresh.lag.Load().every(), fresh.finder.every, after)
	}
	if n := strings.Count(log.String(), `"config"`); n != 2 {
		t.Errorf("%d configurations in the audit log, expected the old and the new one:\n%s", n, log.String())
	}
	if err := audit.Replay(&log, func(*audit.Look) error { return nil }); err != nil {
		t.Errorf("the audit log cannot be replayed: %v", err)
	}
	for _, wrong := range []time.Duration{0, -1, 100} {
		if g.SetObjective(wrong) == nil || g.Objective() != after {
			t.Errorf("an objective of %v was taken", wrong)
		}
	}
}

// A gate in which another policy decides has its objective for hints alone, and knows nothing that it could tell.
func TestSetObjectiveOfAnotherPolicy(t *testing.T) {
	door, err := semaphore.New(semaphore.Config{Limit: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateOf(door, time.Second)
	defer g.Close()
	if err := g.SetObjective(time.Minute); err != nil || g.Objective() != time.Minute || g.Learned() != nil {
		t.Errorf("%v, objective %v, learned %v", err, g.Objective(), g.Learned())
	}
}

// A hold that was configured stays, whatever the culprits' mode is.
func TestSetObjectiveKeepsAConfiguredHold(t *testing.T) {
	for _, mode := range []culprit.Mode{culprit.Monitor, culprit.Enforce, culprit.Off} {
		g, err := NewGate(GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond, Hold: 7 * time.Second}, Culprit: CulpritConfig{Mode: mode}})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.SetObjective(time.Second); err != nil || g.Objective() != time.Second || g.node.Gate().Config().Hold != 7*time.Second {
			t.Errorf("%v: %v, objective %v, hold %v", mode, err, g.Objective(), g.node.Gate().Config().Hold)
		}
		g.Close()
	}
}
