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
// counted: a proxy's connections are of many clients.
type perClient struct {
	p                     *Proxy
	connections, requests int // most; 0: no limit
	all                   int // requests of all clients, most

	mu   sync.Mutex
	here map[netip.Addr]*oneClient
}

// oneClient is a client with connections.
type oneClient struct {
	addr        netip.Addr
	connections int          // with the lock of perClient
	requests    atomic.Int64 // under way
}

func (p *Proxy) newPerClient(l Limits) *perClient {
	return &perClient{p: p, connections: l.ClientConnections, requests: l.ClientRequests, all: l.Requests, here: map[netip.Addr]*oneClient{}}
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
	addr = networkOf(addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.here[addr]
	if one == nil {
		one = &oneClient{addr: addr}
		c.here[addr] = one
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
		delete(c.here, one.addr)
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

// networkOf returns the address that a client counts by: its own, or of IPv6 the network of 64 bits
// that a subscriber has.
func networkOf(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		addr = network.Addr()
	}
	return addr
}

// strange reports whether a connection is of an address that is not in a network of Config.Trust.
func (p *Proxy) strange(c net.Conn) bool {
	addr, ok := clientOf(c.RemoteAddr())
	return ok && !p.state.Load().trustsAddr(addr)
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

// tooMany answers a request if its client has as many under way as it may, and reports true;
// else end is to be called when it ends, unless it is nil.
//
// What a client may have of all requests is a dynamic threshold (Choudhury and Hahne 1998): as many as there is room
// left for. n clients that want more than that have 1/(n+1) of all each, and as much is left for others.
func (p *Proxy) tooMany(own *placed, w http.ResponseWriter, r *http.Request) (refused bool, end func()) {
	if own == nil || own.room.clients == nil {
		return false, nil
	}
	c, one := own.room.clients, own.client
	left, limit := int64(c.all)-p.active.Load(), "all_requests"
	if one == nil {
		if left >= 0 {
			return false, nil
		}
	} else {
		n := one.requests.Add(1)
		within := c.requests == 0 || n <= int64(c.requests)
		if within && n <= left+1 {
			return false, func() { one.requests.Add(-1) }
		}
		one.requests.Add(-1)
		if !within {
			limit = "requests"
		}
	}
	p.limited(r.RemoteAddr, limit)
	httpgate.Refuse(w, r, &live.Refusal{Reason: work.Share, Pushback: p.state.Load().cfg.Objective})
	return true, nil
}
