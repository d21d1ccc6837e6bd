package main

import (
	"errors"
	"net"
	"syscall"
)

// advice says what to do about an error that the system gives for an address, which by itself only says what is
// wrong. It is empty for any other error.
func advice(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return ""
	}
	socket := op.Net == "unix"
	switch {
	case errors.Is(op, syscall.EADDRINUSE):
		return "; another program has this address: stop it, or choose another address"
	case errors.Is(op, syscall.EACCES) && socket:
		return "; expected a directory into which this user may write"
	case errors.Is(op, syscall.EACCES):
		return "; ports below 1024 need a right (CAP_NET_BIND_SERVICE): grant it, or choose a port from 1024 on"
	case errors.Is(op, syscall.EADDRNOTAVAIL):
		return "; expected an address of this machine, or none, as in :8080, for all of them"
	}
	return ""
}
