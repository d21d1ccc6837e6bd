//go:build !linux

package brokers

import "time"

// rest does not: the generator spins.
func rest(int, time.Duration) {}
