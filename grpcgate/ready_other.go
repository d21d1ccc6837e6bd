//go:build !linux

package grpcgate

// readySocket is of use on Linux alone.
type readySocket struct{}
