//go:build !linux

package brokers

import (
	"context"
	"syscall"

	"github.com/spillgate/spillgate/broker/backplane"
)

// A node is stopped instead of cut off.
const (
	isolate = syscall.SIGSTOP
	rejoin  = syscall.SIGCONT
)

func partition(context.Context, backplane.Config) {}
