package link

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// acceptPause is how long Accept waits after the system refused it a connection,
// for want of descriptors say.
const acceptPause = 10 * time.Millisecond

// Accept calls enter for every connection of l until l is closed, and returns why
// it ended.
func Accept(l net.Listener, enter func(net.Conn)) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			var temporary net.Error
			if errors.As(err, &temporary) && temporary.Timeout() || isResource(err) {
				time.Sleep(acceptPause)
				continue
			}
			return err
		}
		enter(nc)
	}
}

// isResource reports whether an error of Accept passes by itself: the client went
// away, or the process has no descriptor left for the moment.
func isResource(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ENOBUFS)
}
