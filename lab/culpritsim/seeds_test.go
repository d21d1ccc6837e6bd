package culpritsim

import "testing"

func TestSeedsOfDifferentSeedsAreApart(t *testing.T) {
	whose := map[uint64]uint64{}
	for seed := range uint64(5) {
		for _, s := range seedsOf(seed, fullQuiet) {
			if other, taken := whose[s]; taken {
				t.Fatalf("seeds %d and %d both play %d", other, seed, s)
			}
			whose[s] = seed
		}
	}
	if first := seedsOf(1, 1)[0]; first != 1 {
		t.Errorf("seed 1 begins at %d, expected 1", first)
	}
}
