package proxy

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// mostUnsaid is how many connections may be about to say whose they are at once. One more
// waits unaccepted.
const mostUnsaid = 1024

// balanced is a listener whose connections, where they come from balancers, begin with a
// header of the PROXY protocol. Each header is read by a goroutine of its own, so that a
// connection that says nothing holds up no other.
type balanced struct {
	net.Listener
	p        *Proxy
	from     []netip.Prefix // balancers
	patience time.Duration

	ready  chan net.Conn
	failed chan error
	room   chan struct{}
	done   <-chan struct{} // of ending
	ending context.Context // ends with Close
	end    context.CancelFunc
	wg     sync.WaitGroup
}

// behind returns l as the listener of connections from balancers in these networks. From
// elsewhere connections are taken as they are: a header of the PROXY protocol on one of those proves nothing.
func (p *Proxy) behind(l net.Listener, from []netip.Prefix, patience time.Duration) net.Listener {
	if len(from) == 0 {
		return l
	}
	b := &balanced{
		Listener: l, p: p, from: from, patience: patience,
		ready: make(chan net.Conn), failed: make(chan error), room: make(chan struct{}, mostUnsaid),
	}
	b.ending, b.end = context.WithCancel(context.Background())
	b.done = b.ending.Done()
	b.wg.Go(b.accept)
	return b
}

// accept takes connections until the listener is closed.
func (b *balanced) accept() {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			select {
			case b.failed <- err: // the server decides whether to go on
				continue
			case <-b.done:
				return
			}
		}
		addr, ok := clientOf(c.RemoteAddr())
		if !ok || !slices.ContainsFunc(b.from, func(n netip.Prefix) bool { return n.Contains(addr) }) {
			b.hand(c)
			continue
		}
		select {
		case b.room <- struct{}{}:
		case <-b.done:
			c.Close()
			return
		}
		b.wg.Go(func() {
			defer func() { <-b.room }()
			b.hear(c)
		})
	}
}

// hear reads the header of a connection and hands it on.
func (b *balanced) hear(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(b.patience)) // before that of Close, which counts
	quiet := context.AfterFunc(b.ending, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	r := bufio.NewReaderSize(c, 512)
	from, err := readProxyLine(r)
	if !quiet() || err != nil {
		if err != nil && b.ending.Err() == nil {
			b.p.badProxyLine(c, err)
		}
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	out := &proxied{Conn: c, buffered: r, from: c.RemoteAddr()}
	if from.IsValid() {
		out.from = net.TCPAddrFromAddrPort(from)
	}
	b.hand(out)
}

// hand has Accept return c.
func (b *balanced) hand(c net.Conn) {
	select {
	case b.ready <- c:
	case <-b.done:
		c.Close()
	}
}

// Accept implements net.Listener.
func (b *balanced) Accept() (net.Conn, error) {
	select {
	case c := <-b.ready:
		return c, nil
	case err := <-b.failed:
		return nil, err
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (b *balanced) Close() error {
	b.end()
	err := b.Listener.Close()
	b.wg.Wait()
	return err
}
