package culpritsim

// block is more seeds than any experiment plays.
const block = 1 << 20

// seedsOf returns n seeds for the seed of an experiment, those of seed 1 from 1 on. Those of different seeds are apart: counted from the
// seed itself, 11,000 applications of seed 1 and of seed 2 were the same ones but for two.
func seedsOf(seed uint64, n int) []uint64 {
	seeds := make([]uint64, n)
	for k := range seeds {
		seeds[k] = (seed-1)*block + 1 + uint64(k)
	}
	return seeds
}
