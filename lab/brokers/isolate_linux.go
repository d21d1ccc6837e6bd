package brokers

import (
	"context"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillgate/spillgate/broker/backplane"
)

// The signals that cut a node off from the others, and end that.
const (
	isolate = unix.SIGUSR1
	rejoin  = unix.SIGUSR2
)

// cutEvery is how often a node that is cut off closes its connections to others: as fast as
// these try again, so that little gets through meanwhile.
const cutEvery = 5 * time.Millisecond

// partition cuts this node off when it is told to, until ctx ends.
func partition(ctx context.Context, cfg backplane.Config) {
	ports := map[uint16]bool{}
	for _, address := range cfg.Routes {
		if a, err := netip.ParseAddrPort(address); err == nil {
			ports[a.Port()] = true
		}
	}
	told := make(chan os.Signal, 2)
	signal.Notify(told, isolate, rejoin)
	defer signal.Stop(told)
	cut := time.NewTicker(cutEvery)
	defer cut.Stop()
	off := false
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-told:
			off = s == isolate
		case <-cut.C:
			if off {
				closeAll(ports)
			}
		}
	}
}

// closeAll shuts down the connections of this process whose one end is a port of ports.
func closeAll(ports map[uint16]bool) {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	port := func(a unix.Sockaddr, err error) uint16 {
		switch a := a.(type) {
		case *unix.SockaddrInet4:
			return uint16(a.Port)
		case *unix.SockaddrInet6:
			return uint16(a.Port)
		}
		return 0
	}
	for _, f := range all {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		peer := port(unix.Getpeername(fd)) // 0 of what is no connection
		if peer > 0 && (ports[peer] || ports[port(unix.Getsockname(fd))]) {
			_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		}
	}
}
