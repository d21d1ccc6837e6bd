package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/httpgate"
)

// ownDescriptors is how many files the proxy needs for itself: the runtime's, the
// listeners, the admin connections, the audit log.
const ownDescriptors = 32

// connections returns how many client connections there can be at once: as many as
// configured, unless the process may not open a file for each and a third as many for the
// upstreams that some of them wait for, and as many again for calls of the upstreams where there is egress. Then it says so
// in the log: an upstream that cannot be dialled for want of files would refuse everybody.
func (p *Proxy) connections(configured int, files uint64) int {
	rooms := 1
	if len(p.exits) > 0 {
		rooms = 2
	}
	need := uint64(rooms*configured)*4/3 + ownDescriptors
	if files == 0 || files >= need {
		return configured
	}
	most := max((int(files)-ownDescriptors)*3/4/rooms, 1)
	say := p.log.Warn
	if configured == defaultConnections {
		say = p.log.Info // nobody asked for so many
	}
	say("fewer client connections than configured: the process may not open more files",
		"connections", most, "configured", configured, "files", files, "files_needed", need,
		"help", "raise the limit of open files (ulimit -n, LimitNOFILE=), or lower limits.connections")
	return most
}

// badBody counts what a client did wrong, and says it in the log now and then.
func (p *Proxy) badBody(r *http.Request, err error) {
	kind := clientFoul
	if errors.Is(err, httpgate.ErrSlowBody) {
		kind = clientSlow
	}
	p.logOf(r).say(broken, string(kind))
	p.clients.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", string(kind))))
	if skipped, ok := p.bodies.allow(time.Second); ok {
		p.log.Info("request body malformed or too slow", "client", r.RemoteAddr, "kind", string(kind), "error", err, "also", skipped)
	}
}

// badProxyLine counts a connection of a balancer that was closed because it did not say
// whose it is, and says it in the log now and then.
func (p *Proxy) badProxyLine(c net.Conn, err error) {
	p.clients.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", "proxy_protocol")))
	if skipped, ok := p.unsaid.allow(limitNotice); ok {
		p.log.Warn("a connection from a balancer is closed", "balancer", c.RemoteAddr().String(), "error", err, "also", skipped)
	}
}

// refusedConnection says in the log, now and then, that the system gave no connection.
func (p *Proxy) refusedConnection(l net.Listener, err error) {
	if skipped, ok := p.unaccepted.allow(time.Second); ok {
		p.log.Error("a connection cannot be accepted", "listen", l.Addr().String(), "error", err, "also", skipped)
	}
}
