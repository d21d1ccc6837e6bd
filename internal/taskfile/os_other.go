//go:build !linux

package taskfile

import (
	"errors"
	"fmt"
	"os"
)

// errLinux is why nothing opens here: the format names processes and instants
// as Linux does.
var errLinux = fmt.Errorf("taskfile: task files need Linux: %w", errors.ErrUnsupported)

func newStopwatch() (stopwatch, error)         { return stopwatch{}, errLinux }
func openFile(string) (*os.File, int64, error) { return nil, 0, errLinux }
func mapFile(*os.File, int) ([]byte, error)    { return nil, errLinux }
func unmapFile([]byte) error                   { return errLinux }
func detachFile([]byte) error                  { return errLinux }
