package front

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the children's program.
func TestMain(m *testing.M) {
	Child()
	goleak.VerifyTestMain(m)
}

// Beside every attack, every normal request is served. The objective is beyond what a busy
// machine takes, and a slot that an attacker kept would be missed: there are as many attackers
// as slots and more.
func TestNormalRequestsAreServed(t *testing.T) {
	p := play{objective: time.Minute, perSecond: 50, pause: 20 * time.Millisecond, before: 100 * time.Millisecond, beside: 400 * time.Millisecond}
	for i, s := range slices.Concat(scenes(), strange()) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.many = min(s.many, 3*workers*10)
			if i >= len(scenes()) {
				s.many = min(s.many, workers)
			}
			switch s.kind {
			case "silent stream", "no window", "one byte", "pipeline", "trailers", "leaves", "half closed":
				s.many = 1 // what they ask for is work, and pauses are short here
			}
			out, err := p.scene(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []*seen{out.alone, out.beside} {
				if n.sent == 0 || n.served != n.sent {
					t.Errorf("%d of %d normal requests were served, %d refused, %d failed", n.served, n.sent, n.refused, n.failed)
				}
			}
		})
	}
}

func TestAttacks(t *testing.T) {
	for _, s := range slices.Concat(scenes(), strange()) {
		if ways[s.kind] == nil {
			t.Errorf("%s: no attack of the kind %q, there are %s", s.name, s.kind, kinds())
		}
	}
	err := (&Attack{Kind: "polite", Connections: 1}).begin(t.Context())
	if err == nil || !strings.Contains(err.Error(), "polite") {
		t.Errorf("an unknown attack: %v", err)
	}
}

func TestWhatNormalClientsSee(t *testing.T) {
	s := seen{sent: 200, served: 100, refused: 60, failed: 40}
	for n := range 100 {
		s.took = append(s.took, time.Duration(100-n)*time.Millisecond)
	}
	if s.bad() != 0.5 || s.p99() != 99*time.Millisecond || (&seen{}).p99() != 0 {
		t.Errorf("%v not served, p99 %v", s.bad(), s.p99())
	}
}
