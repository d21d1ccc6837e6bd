package live

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// origin is the instant that mono.Time counts from in this process. It is an
// hour back, so that no instant of the process is the zero Time.
var origin = time.Now().Add(-time.Hour)

// Now returns the present on this process's monotonic clock. What is told to a
// policy is read with the policy's lock held, or moved to the last instant that it was
// told: no policy sees time run backwards.
func Now() mono.Time { return mono.Time(time.Since(origin)) }

// Instant converts t, which must carry a monotonic reading, as those of time.Now
// and of context deadlines do.
func Instant(t time.Time) mono.Time { return mono.Time(t.Sub(origin)) }
