//go:build !linux

package live

import "time"

// hostProcessors: only Linux tells.
func hostProcessors() hostTime { return hostTime{} }

// threadDelay: only Linux tells.
func threadDelay() time.Duration { return 0 }
