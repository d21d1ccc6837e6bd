package sim

import (
	"math/rand/v2"
)

// Stream names what a stream of chance is for, so that one entity can draw
// several things independently.
type Stream uint32

// Chance returns the stream of entity number id for one purpose. Equal
// arguments give equal streams; different ones are independent for all a
// simulation can tell.
func Chance(seed uint64, purpose Stream, id int) *rand.Rand {
	a := mix(seed ^ mix(uint64(purpose)<<32|uint64(uint32(id))))
	return rand.New(rand.NewPCG(a, mix(a^seed)))
}

// mix is the finalizer of SplitMix64 (Steele et al., OOPSLA 2014): a bijection
// whose every output bit depends on every input bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
