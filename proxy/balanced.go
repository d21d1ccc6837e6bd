package proxy

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// mostUnsaid is how many connections may be about to say whose they are at once. One more
// waits unaccepted.
const mostUnsaid = 1024

// behind returns l as the listener of connections from balancers in these networks. From
// elsewhere connections are taken as they are: a header of the PROXY protocol on one of those proves nothing.
func (p *Proxy) behind(l net.Listener, from []netip.Prefix, patience time.Duration) net.Listener {
	if len(from) == 0 {
		return l
	}
	g := &greeted{
		Listener: l, most: make(chan struct{}, mostUnsaid),
		hears: func(c net.Conn) bool {
			addr, ok := clientOf(c.RemoteAddr())
			return ok && slices.ContainsFunc(from, func(n netip.Prefix) bool { return n.Contains(addr) })
		},
		hear: func(ctx context.Context, c net.Conn) net.Conn { return p.said(ctx, c, patience) },
	}
	return g.listen()
}

// said reads the header of a connection of a balancer, and returns the connection that it is in front of, nil if there is none.
func (p *Proxy) said(ctx context.Context, c net.Conn, patience time.Duration) net.Conn {
	_ = c.SetReadDeadline(time.Now().Add(patience)) // before that of the end, which counts
	quiet := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	r := bufio.NewReaderSize(c, 512)
	from, err := readProxyLine(r)
	if !quiet() || err != nil {
		if err != nil && ctx.Err() == nil {
			p.badProxyLine(c, err)
		}
		c.Close()
		return nil
	}
	_ = c.SetReadDeadline(time.Time{})
	out := &proxied{Conn: c, buffered: r, from: c.RemoteAddr()}
	if from.IsValid() {
		out.from = net.TCPAddrFromAddrPort(from)
	}
	return out
}
