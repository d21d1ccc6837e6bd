//go:build !amd64

package taskfile

import "sync/atomic"

// put stores with release order.
func put(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// put32 is put for half a word.
func put32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
