//go:build !amd64

package taskfile

import "sync/atomic"

// put stores with release order.
func put(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
