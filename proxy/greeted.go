package proxy

import (
	"context"
	"net"
	"sync"
)

// greeted is a listener whose connections begin with what is not for the server: a header of the PROXY protocol, a handshake
// of TLS. Each is heard by a goroutine of its own, so that a connection that says nothing holds up no other.
type greeted struct {
	net.Listener
	most chan struct{} // has room for as many as are heard at once; nil: any number
	// hears reports whether a connection begins so; nil: all do. hear returns what the server gets of one that does, or nil if it
	// has closed it, and returns soon when ctx ends.
	hears func(net.Conn) bool
	hear  func(ctx context.Context, c net.Conn) net.Conn

	ready  chan net.Conn
	failed chan error
	done   <-chan struct{} // of ending
	ending context.Context // ends with Close
	end    context.CancelFunc
	wg     sync.WaitGroup
}

// listen begins to accept.
func (g *greeted) listen() *greeted {
	g.ready, g.failed = make(chan net.Conn), make(chan error)
	g.ending, g.end = context.WithCancel(context.Background())
	g.done = g.ending.Done()
	g.wg.Go(g.accept)
	return g
}

// accept takes connections until the listener is closed.
func (g *greeted) accept() {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			select {
			case g.failed <- err: // the server decides whether to go on
				continue
			case <-g.done:
				return
			}
		}
		if g.hears != nil && !g.hears(c) {
			g.hand(c)
			continue
		}
		if g.most != nil {
			select {
			case g.most <- struct{}{}:
			case <-g.done:
				c.Close()
				return
			}
		}
		g.wg.Go(func() {
			if c := g.hear(g.ending, c); c != nil {
				g.hand(c)
			}
			if g.most != nil {
				<-g.most
			}
		})
	}
}

// hand has Accept return c.
func (g *greeted) hand(c net.Conn) {
	select {
	case g.ready <- c:
	case <-g.done:
		c.Close()
	}
}

// Accept implements net.Listener.
func (g *greeted) Accept() (net.Conn, error) {
	select {
	case c := <-g.ready:
		return c, nil
	case err := <-g.failed:
		return nil, err
	case <-g.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (g *greeted) Close() error {
	g.end()
	err := g.Listener.Close()
	g.wg.Wait()
	return err
}
