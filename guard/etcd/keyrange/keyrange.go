package keyrange

import "bytes"

// Range is a range of keys. Its slices belong to the request.
type Range struct {
	// Key is the first key. It is empty, or a zero byte, for the first key there is.
	Key []byte
	// End is the first key behind the range, a zero byte for no end. Empty: the range is
	// the one key.
	End []byte
}

// Single reports whether the range is one key.
func (r Range) Single() bool { return len(r.End) == 0 }

// Covers reports whether the range has every key with the prefix; with the empty one,
// every key there is.
func (r Range) Covers(prefix string) bool {
	if r.Single() || !bytes.Equal(r.Key, zero) && string(r.Key) > prefix {
		return false
	}
	if bytes.Equal(r.End, zero) {
		return true
	}
	// The end must be behind all keys with the prefix. The first such end is the prefix
	// with its last byte that is not 0xff counted up.
	last := len(prefix)
	for last > 0 && prefix[last-1] == 0xff {
		last--
	}
	if last == 0 {
		return false // nothing but no end is behind all
	}
	same := min(last-1, len(r.End))
	switch head := string(r.End[:same]); {
	case head != prefix[:same]:
		return head > prefix[:same]
	case len(r.End) < last:
		return false
	}
	return r.End[last-1] > prefix[last-1]
}

// zero is how etcd spells the first key, and no end.
var zero = []byte{0}
