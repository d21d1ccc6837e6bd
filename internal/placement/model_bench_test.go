package placement

import "testing"

func BenchmarkModel(b *testing.B) {
	for _, c := range []struct {
		name string
		rate float64
	}{{"light", 10_000}, {"half", 30_000}, {"heavy", 60_000}} {
		b.Run(c.name, func(b *testing.B) {
			m := Model{Cost: 1. / 64_900}
			s := Share{Bucket: Bucket{1.1 * c.rate, 26}, Arriving: c.rate, Together: 1, Steady: 1}
			for b.Loop() {
				m.P99(s)
			}
		})
	}
}
