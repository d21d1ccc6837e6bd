package machine

import (
	"fmt"
	"os"
)

// Resident returns the resident set of a process, in bytes. On systems other than Linux it is an error.
func Resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, fmt.Errorf("the memory of a process: %w", err)
	}
	return pages * float64(os.Getpagesize()), nil
}
