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

// Instant converts t. One without a monotonic reading, such as a deadline that a message brought, is as far away as the
// calendar says now: the calendar may have been set since the process began.
func Instant(t time.Time) mono.Time { return instant(t, origin) }

func instant(t, origin time.Time) mono.Time {
	if t == t.Round(0) {
		return mono.Time(time.Since(origin)).Add(time.Until(t))
	}
	return mono.Time(t.Sub(origin))
}
