package credit

import (
	"math/rand/v2"
	"testing"
)

// Whatever the order of successes and refusals, a tenth of the successes is
// never exceeded, and never by more than ten at once.
func TestRetryBudget(t *testing.T) {
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 1))
		success := chance.Float64()
		var b RetryBudget
		earned, spent, row := 0, 0, 0
		for range 5000 {
			if chance.Float64() < success {
				b.Earn()
				earned, row = earned+1, 0
				continue
			}
			if b.Spend() {
				spent, row = spent+1, row+1
			}
			if 10*spent > earned || row > 10 {
				t.Fatalf("seed %d: %d retries after %d successes, %d in a row", seed, spent, earned, row)
			}
		}
	}
	var b RetryBudget
	for range 9 {
		b.Earn()
	}
	if b.Spend() {
		t.Error("a retry after nine successes")
	}
	b.Earn()
	if !b.Spend() || b.Spend() {
		t.Error("ten successes pay for one retry")
	}
}
