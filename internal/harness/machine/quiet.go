package machine

import (
	"context"
	"time"
)

const (
	// quietShare is the share of all processors that may be in use on a quiet
	// machine.
	quietShare = 0.08
	quietLook  = 200 * time.Millisecond
)

// AwaitQuiet waits until the machine has little else to do, for patience at most,
// and returns how long that took. Where the kernel does not tell, it does not
// wait.
func AwaitQuiet(ctx context.Context, patience time.Duration) time.Duration {
	began := time.Now()
	for patience > 0 && ctx.Err() == nil && time.Since(began) < patience {
		before := readProcessors()[allProcessors]
		select {
		case <-time.After(quietLook):
		case <-ctx.Done():
		}
		if share, ok := inUse(before, readProcessors()[allProcessors]); !ok || share <= quietShare {
			break
		}
	}
	return time.Since(began)
}

// inUse returns the share of the time between two readings that was neither idle nor
// spent waiting for a disk; false if no time passed.
func inUse(before, after processor) (float64, bool) {
	passed := after.total() - before.total()
	if passed <= 0 {
		return 0, false
	}
	return 1 - (after.unused()-before.unused())/passed, true
}
