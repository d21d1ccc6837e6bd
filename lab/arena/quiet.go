package arena

import (
	"context"
	"os"
	"strconv"
	"strings"
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
		before, _ := os.ReadFile("/proc/stat")
		select {
		case <-time.After(quietLook):
		case <-ctx.Done():
		}
		after, _ := os.ReadFile("/proc/stat")
		if share, ok := inUse(string(before), string(after)); !ok || share <= quietShare {
			break
		}
	}
	return time.Since(began)
}

// inUse returns the share of the processors' time that was neither idle nor waiting
// for a disk between two readings of /proc/stat.
func inUse(before, after string) (float64, bool) {
	idle0, all0, ok0 := idleOf(before)
	idle1, all1, ok1 := idleOf(after)
	if !ok0 || !ok1 || all1 <= all0 {
		return 0, false
	}
	return 1 - (idle1-idle0)/(all1-all0), true
}

func idleOf(stat string) (idle, all float64, ok bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, text := range fields[1:9] {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, false
		}
		all += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return idle, all, true
}
