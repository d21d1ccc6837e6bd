//go:build !unix

package proxy

import (
	"errors"
	"syscall"
)

const canPark = false

func readable(syscall.Conn) error { return errors.ErrUnsupported }
