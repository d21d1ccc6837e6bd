package taskfile

import "math/bits"

// Fingerprint returns the FNV-1a hash, 64 bits, of a name. The fingerprint of a
// kind is that of its name, in every language.
func Fingerprint(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

func leadingZeros(v uint64) int { return bits.LeadingZeros64(v) }
