//go:build !linux

package procfs

import "time"

// sinceBoot is not known: there is no /proc.
func sinceBoot() (time.Duration, bool) { return 0, false }
