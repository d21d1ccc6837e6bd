package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// limitNotice is the least time between two log lines about clients with too many
// connections or requests.
const limitNotice = 10 * time.Second

// perClient counts the connections and requests of each client, which is an address, or of
// IPv6 the network of 64 bits that a subscriber has. Those of networks under Config.Trust are not
// counted: a proxy's connections are of many clients. Nothing is counted where no limit is
// configured.
type perClient struct {
	p                     *Proxy
	connections, requests int // most; 0: no limit

	mu  sync.Mutex
	all map[netip.Addr]*oneClient
}

// oneClient is a client with connections.
type oneClient struct {
	addr        netip.Addr
	connections int          // with the lock of perClient
	requests    atomic.Int64 // under way
}

// newPerClient returns nil where there is nothing to count.
func (p *Proxy) newPerClient(l Limits) *perClient {
	if l.ClientConnections == 0 && l.ClientRequests == 0 {
		return nil
	}
	return &perClient{p: p, connections: l.ClientConnections, requests: l.ClientRequests, all: map[netip.Addr]*oneClient{}}
}

// enter counts a connection, and reports false if its client has as many as it may. The
// client is nil where it is not counted.
func (c *perClient) enter(nc net.Conn) (*oneClient, bool) {
	if c == nil {
		return nil, true
	}
	addr, ok := clientOf(nc.RemoteAddr())
	if !ok || c.p.state.Load().trustsAddr(addr) {
		return nil, true
	}
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		addr = network.Addr()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[addr]
	if one == nil {
		one = &oneClient{addr: addr}
		c.all[addr] = one
	}
	if c.connections > 0 && one.connections >= c.connections {
		c.p.limited(nc.RemoteAddr().String(), "connections")
		return nil, false
	}
	one.connections++
	return one, true
}

// leave undoes enter.
func (c *perClient) leave(one *oneClient) {
	if one == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.connections--; one.connections == 0 {
		delete(c.all, one.addr)
	}
}

// clientOf returns the address of a connection, and false if it has none, as of a socket.
func clientOf(a net.Addr) (netip.Addr, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap(), ok
}

// trustsAddr reports whether an address is in a network of Config.Trust.
func (s *state) trustsAddr(addr netip.Addr) bool {
	for _, n := range s.cfg.Trust {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// limited counts what a client was refused for having too many, and says it in the log now
// and then.
func (p *Proxy) limited(client, what string) {
	p.perClient.Add(context.Background(), 1, metric.WithAttributes(attribute.String("limit", what)))
	if skipped, ok := p.greedy.allow(limitNotice); ok {
		p.log.Info("a client has reached its limit", "client", client, "limit", what, "also", skipped)
	}
}

// tooMany answers a request whose client has as many under way as it may, and reports true;
// else end is to be called when it ends.
func (p *Proxy) tooMany(own *placed, w http.ResponseWriter, r *http.Request) (refused bool, end func()) {
	if own == nil || own.client == nil || own.room.clients.requests == 0 {
		return false, nil
	}
	one := own.client
	if one.requests.Add(1) <= int64(own.room.clients.requests) {
		return false, func() { one.requests.Add(-1) }
	}
	one.requests.Add(-1)
	p.limited(r.RemoteAddr, "requests")
	httpgate.Refuse(w, r, &live.Refusal{Reason: work.Share, Pushback: p.state.Load().cfg.Objective})
	return true, nil
}
