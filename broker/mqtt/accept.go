package mqtt

import (
	"errors"
	"syscall"
)

// isResource reports whether an error of Accept passes by itself: the client went
// away, or the process has no descriptor left for the moment.
func isResource(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ENOBUFS)
}
