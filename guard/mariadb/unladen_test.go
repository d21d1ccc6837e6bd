package mariadb

import "time"

// unladen returns a builder that does not know what this machine's processors do: a tick of the real ones while a test plays
// made up looks would count as a load.
func unladen(objective time.Duration) *builder {
	b := newBuilder(objective, false)
	b.meter.Busy = func() (time.Duration, int) { return 0, 0 }
	return b
}
