//go:build amd64

package taskfile

// put stores with release order. This processor keeps the order of stores, and
// a word is written whole, so a plain store is enough; an atomic one would be
// an exchange, which costs three times the rest of an event.
func put(p *uint64, v uint64) { *p = v }

// put32 is put for half a word.
func put32(p *uint32, v uint32) { *p = v }
