package slots

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Answers begin after 30 ms and are written for an exponential time of 2 s, without any bottleneck. A second later
// the slot is given back, as edges do with a stream. Six in ten are; the time that they held their slots is none
// that the others took, and no queue. Those that end before are judged as a whole.
func TestStreamsHoldNoQueue(t *testing.T) {
	const first, held = 30 * time.Millisecond, time.Second
	for seed := range uint64(10) {
		l, err := New(Config{Slack: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		refused, n := 0, 0
		events := map[mono.Time][]func(){}
		const tick = time.Millisecond
		for now := mono.Time(0); now < mono.Time(60*time.Second); now = now.Add(tick) {
			for _, f := range events[now] {
				f()
			}
			delete(events, now)
			if rng.Float64() > 0.02 {
				continue
			}
			if n++; !l.Free() {
				refused++
				continue
			}
			started, place := now, l.Acquire(now)
			took := time.Duration(rng.ExpFloat64() * float64(2*time.Second)).Round(tick)
			events[now.Add(first)] = append(events[now.Add(first)], func() { l.Answer(started.Add(first), &place) })
			over := now.Add(first + min(took, held))
			events[over] = append(events[over], func() {
				if took < held {
					l.Release(over, started, place, true)
				} else {
					l.Part(over, started, place)
				}
			})
		}
		if float64(refused) > 0.005*float64(n) {
			t.Errorf("seed %d: %d of %d found no slot, limit %d, want half a percent at most: nothing is short", seed, refused, n, l.Limit())
		}
	}
}
