package share

import (
	"math"
	"testing"
)

// TestAsked: a mean wait of those who stayed leads back to what was asked of all,
// as long as it says anything; it never leads to less, and more to more.
func TestAsked(t *testing.T) {
	for _, p := range []Patience{{{1, 5}}, {{0.7, 0.5}, {0.3, 20}}, {{0.5, 0}, {0.5, 3}}} {
		for _, busy := range []float64{0.3, 0.8, 0.97} {
			before := 0.0
			for asked := 0.001; asked < 0.05; asked *= 1.5 {
				if got := p.asked(p.stays(asked, busy), busy); !within(got, asked, 1e-6) {
					t.Errorf("%v, %v busy: asked %v, found %v", p, busy, asked, got)
				}
			}
			for stayed := 0.001; stayed < 10; stayed *= 1.3 {
				got := p.asked(stayed, busy)
				if math.IsNaN(got) || got < stayed || got < before {
					t.Errorf("%v, %v busy: %v of those who stayed is %v asked, after %v", p, busy, stayed, got, before)
				}
				before = got
			}
		}
	}
	if got := (Patience{{1, 5}}).asked(0, 0.5); got != 0 {
		t.Errorf("nobody waits, %v asked", got)
	}
}

// TestLostAsked: in a simulated M/M/1 queue at 85/s of 100/s, of which 45/s give up
// after 200 ms in the mean, those who stayed waited 24.6 ms and 12.6 % had left.
func TestLostAsked(t *testing.T) {
	p, busy := Patience{{1, 5}}, 0.8
	if got := p.lostAsked(p.asked(0.0246, busy), busy); math.Abs(got-0.126) > 0.004 {
		t.Errorf("lost %.4f, want 0.126", got)
	}
}
