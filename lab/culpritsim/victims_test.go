package culpritsim

import (
	"math"
	"testing"
	"time"
)

// What a gate must not lose again: no victim is dropped while a culprit is found.
func TestVictimsHold(t *testing.T) {
	for _, c := range gateCases() {
		out := heldOrNot(t, c, 1)
		t.Logf("%s: %+v, kept %+v", c.name, out[0], out[1])
		switch {
		case c.bar && (out[1].dropped > 0 || out[1].decided < 0 || out[1].decided > decideWithin):
			t.Errorf("%s: %d of %d dropped, decided after %v, expected none and within %v", c.name, out[1].dropped, out[1].all, out[1].decided, decideWithin)
		case c.after > 0 && out[1] != out[0]:
			t.Errorf("%s: %+v where victims are kept, %+v otherwise, expected the same: requests went on to end", c.name, out[1], out[0])
		}
	}
}

// Without a culprit, whatever is suspected, nearly as many are in time as if no victim were kept: 0.97 of them. In a
// slowdown of 20 times hardly anything is in time either way, some 200 a seed, which differ by a tenth by chance; so
// seeds are added up, and two standard deviations are allowed.
func TestVictimsAreNotKeptInVain(t *testing.T) {
	const seeds = 6
	for _, c := range gateCases() {
		if c.seized {
			continue
		}
		without, with := 0, 0
		for seed := range uint64(seeds) {
			out := heldOrNot(t, c, seed+1)
			without, with = without+out[0].good, with+out[1].good
		}
		if chance := 2 * math.Sqrt(float64(without+with)); float64(with) < 0.97*float64(without)-chance {
			t.Errorf("%s: %d in time where victims are kept, %d otherwise, expected 0.97 of that but for %.0f by chance", c.name, with, without, chance)
		}
	}
}

// heldOrNot plays a case without victims kept and with.
func heldOrNot(t *testing.T, c gateCase, seed uint64) (out [2]gated) {
	t.Helper()
	for i := range out {
		o, err := playGate(gateRun{c, seed, time.Duration(i) * gateHold})
		if err != nil {
			t.Fatal(err)
		}
		out[i] = o
	}
	return out
}

// With all workers taken, those are lost that came more than an objective before the culprit lets go, and a few that come then while all
// of the line is served at once. With one worker left fewer are, and none where the culprit lets go at once.
func TestLostByArithmetic(t *testing.T) {
	const letsGo = gateObjective + 100*ms
	for seed := range uint64(5) {
		held := gateRun{gateCase: gateCase{load: 0.5, seized: true}, seed: seed}
		one := held
		one.leaves = 1
		least := 0.5 * gateWorkers / gateService.Seconds() * (letsGo - gateObjective).Seconds() // on average
		n, fewer := held.lost(letsGo), one.lost(letsGo)
		if float64(n) < 0.7*least || float64(n) > 2*least || fewer >= n {
			t.Errorf("seed %d: %d lost, %d with a worker left; expected about %.0f, and fewer", seed, n, fewer, least)
		}
		if n := held.lost(0); n != 0 {
			t.Errorf("seed %d: %d lost to a culprit that lets go at once", seed, n)
		}
	}
}
