// Package freeport finds addresses of loopback for programs that must be told one before they listen. The port is below
// those that the kernel gives to connections and to listeners that ask for any, so that nobody takes it between its
// closing and the program's listening, but another user of this package by a chance of one in thousands.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Linux gives ports from 32768 to connections, if nobody says otherwise; macOS from 49152.
const first, last = 12_000, 32_767

// attempts is how many ports are tried. Each is taken with a small chance where few programs listen.
const attempts = 100

// Listen listens on a free port of 127.0.0.1. Close the listener when the program that is told its address starts;
// until then no other call returns the port. The error says what the last attempt met.
func Listen() (net.Listener, error) {
	var err error
	for range attempts {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1))); err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			break
		}
	}
	return nil, fmt.Errorf("no free port from %d to %d on 127.0.0.1: %w", first, last, err)
}
