package culpritsim

import (
	"testing"
	"time"
)

// What a gate must not lose again: no victim is dropped while a culprit is found, and
// without one, whatever is suspected, nearly as many are in time as if none were kept.
func TestVictimsHold(t *testing.T) {
	for _, c := range gateCases() {
		if c.name == manyTimesSlower {
			continue // a twentieth is in time: see TestVictimsHoldOfASlowServer
		}
		var out [2]gated
		for i := range out {
			o, err := playGate(gateRun{c, 1, time.Duration(i) * gateHold})
			if err != nil {
				t.Fatal(err)
			}
			out[i] = o
		}
		t.Logf("%s: %+v, kept %+v", c.name, out[0], out[1])
		switch {
		case c.bar && (out[1].dropped > 0 || out[1].decided < 0 || out[1].decided > decideWithin):
			t.Errorf("%s: %d of %d dropped, decided after %v, expected none and within %v", c.name, out[1].dropped, out[1].all, out[1].decided, decideWithin)
		case !c.seized && float64(out[1].good) < 0.97*float64(out[0].good):
			t.Errorf("%s: %d in time where victims are kept, %d otherwise, expected 0.97 of that", c.name, out[1].good, out[0].good)
		case c.after > 0 && out[1] != out[0]:
			t.Errorf("%s: %+v where victims are kept, %+v otherwise, expected the same: requests went on to end", c.name, out[1], out[0])
		}
	}
}

// manyTimesSlower is the case in which so few are in time that one seed says nothing.
const manyTimesSlower = "20 times slower"

// Of a server that became 20 times slower a twentieth of the requests is in time. To keep the others while a culprit is
// looked for costs one in thirteen of those: .92 to .94 over 20 seeds, .65 to 1.3 on one.
func TestVictimsHoldOfASlowServer(t *testing.T) {
	const seeds = 20
	for _, c := range gateCases() {
		if c.name != manyTimesSlower {
			continue
		}
		var good [2]int
		for seed := range uint64(seeds) {
			for i := range good {
				o, err := playGate(gateRun{c, seed + 1, time.Duration(i) * gateHold})
				if err != nil {
					t.Fatal(err)
				}
				good[i] += o.good
			}
		}
		if float64(good[1]) < 0.9*float64(good[0]) {
			t.Errorf("%d in time where victims are kept, %d otherwise, expected 0.9 of that", good[1], good[0])
		}
		return
	}
	t.Fatalf("there is no case %q", manyTimesSlower)
}
