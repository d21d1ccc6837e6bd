package grpcgate

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// Serve adds the control service to s, unless RegisterControl did, and serves
// lis until s stops, as s.Serve does. It knows the instant at which each
// connection ends, when a client's credits go back to the others.
//
// A server that is served in another way works too: it learns of ended
// connections when the garbage collector finds them, and until then reclaims
// their credits when their leases are over and somebody waits for them. (grpc
// tells of connections through stats handlers too, but with one in place each
// call costs about 40 allocations more.)
func Serve(s *grpc.Server, lis net.Listener) error {
	registerOnce(s)
	return s.Serve(listener{lis})
}

// registering is for two calls of Serve at once, for two listeners of one server.
var registering sync.Mutex

func registerOnce(s *grpc.Server) {
	registering.Lock()
	defer registering.Unlock()
	if _, have := s.GetServiceInfo()[controlService]; !have {
		RegisterControl(s)
	}
}

type listener struct{ net.Listener }

// Accept waits for the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c}, nil
}

// watchedConn is a connection that knows its clients' accounts and ends them.
type watchedConn struct {
	net.Conn
	socket readySocket

	mu     sync.Mutex
	state  *connection
	closed bool
}

// localAddr is a watchedConn as its own address: grpc shows a call its peer's
// addresses, not its connection, and finds it again by this. It is no object of its
// own because there is one for every client.
type localAddr watchedConn

// Network returns the network's name.
func (a *localAddr) Network() string { return a.Conn.LocalAddr().Network() }

// String returns the address.
func (a *localAddr) String() string { return a.Conn.LocalAddr().String() }

// LocalAddr returns the local address.
func (w *watchedConn) LocalAddr() net.Addr { return (*localAddr)(w) }

// Close ends the accounts, and the connection.
func (w *watchedConn) Close() error {
	w.mu.Lock()
	w.closed = true
	state := w.state
	w.mu.Unlock()
	if state != nil {
		state.end()
	}
	return w.Conn.Close()
}

// SyscallConn lets grpc read socket options.
func (w *watchedConn) SyscallConn() (syscall.RawConn, error) {
	if c, ok := w.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.New("grpcgate: the connection has no file descriptor")
}

// of returns the connection's state at s. p is its peer.
func (w *watchedConn) of(s *server, p *peer.Peer) *connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == nil {
		w.state = s.newConnection(p)
		if w.closed {
			w.state.end()
		}
	}
	return w.state
}
