package topics

import (
	"testing"

	"github.com/spillgate/spillgate/internal/placement"
)

// Leases, too, never add up to more than there is, whatever is wanted and lost.
func TestDividersNeverExceed(t *testing.T) {
	m := movement{"", 500, phases{30, 60, 120}, .8}
	for seed := range uint64(5) {
		s := m.shift(seed)
		for _, f := range followers {
			if q := s.play(f.new(s.bucket, 3)); q.rate > 1+1e-9 || q.burst > 1+1e-9 {
				t.Errorf("seed %d, %s: %v of the rate, %v of the burst", seed, f.name, q.rate, q.burst)
			}
		}
	}
}

// One bucket that is never divided delays as the formula says.
func TestOneBucketIsExact(t *testing.T) {
	s := shift{seed: 1, until: 400, bucket: placement.Bucket{Rate: 1100, Burst: 5}, rates: func(float64) []float64 { return []float64{1000} },
		cutOff: func(int, float64) bool { return false }}
	q := s.play(even(s.bucket, 1))
	want := s.bucket.Delays(1000).P99
	if got := q.p99(0, 400); got < .85*want || got > 1.15*want {
		t.Errorf("p99 %v s, exactly %v s", got, want)
	}
}

// The draws are valid and leave room.
func TestDraw(t *testing.T) {
	for seed := range uint64(100) {
		nodes, topics := draw(chance(seed, 1))
		need, room := 0.0, 0.0
		for _, n := range nodes {
			room += 1 - n.busy()
		}
		for _, l := range topics {
			need += l.total() * l.cost()
		}
		if need > room*2/3 || len(nodes) < 3 {
			t.Errorf("seed %d: %d topics need %.2f of %.2f of %d nodes", seed, len(topics), need, room, len(nodes))
		}
	}
}
