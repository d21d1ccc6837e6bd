//go:build !unix

package live

import "time"

func processorTime() time.Duration { return 0 }
