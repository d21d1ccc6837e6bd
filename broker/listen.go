package broker

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/broker/link"
	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/stamp"
)

// protocols are what a listener may speak; the first is that of an address without a
// protocol.
var protocols = []string{"mqtt", "nats", "nsq", lookup}

// lookup is the protocol by which consumers of NSQ ask where to connect.
const lookup = "nsqlookup"

// listener is an address of Config.Listen: "host:port", "nats://host:port", or
// "nats+tls://host:port".
type listener struct {
	protocol, address string
	tls               bool
}

func parseListener(text string) listener {
	l := listener{protocol: protocols[0], address: text}
	if scheme, rest, found := strings.Cut(text, "://"); found {
		l.protocol, l.address = scheme, rest
		l.protocol, l.tls = strings.CutSuffix(l.protocol, "+tls")
	}
	return l
}

// check calls wrong for what is wrong with a listener.
func (l listener) check(wrong func(field, value, want string), field, text string) {
	if !slices.Contains(protocols, l.protocol) {
		wrong(field, strconv.Quote(text), "host:port for MQTT, or one of "+strings.Join(protocols, ", ")+" in front, for example nats://127.0.0.1:4222 or mqtt+tls://:8883")
		return
	}
	checkAddress(wrong, field, l.address)
}

// checkLookup calls wrong for lookups that have nothing to tell.
func (c Config) checkLookup(wrong func(field, value, want string)) {
	nsq := slices.ContainsFunc(c.Listen, func(text string) bool { return parseListener(text).protocol == "nsq" })
	for i, text := range c.Listen {
		if parseListener(text).protocol == lookup && !nsq {
			wrong(fmt.Sprintf("listen[%d]", i), strconv.Quote(text), "a listener for NSQ beside it, such as nsq://127.0.0.1:4150, whose address it tells")
		}
	}
}

// local reports whether only this machine reaches the listener.
func (l listener) local() bool {
	host, _, err := net.SplitHostPort(l.address)
	if err != nil { // which is a mistake of its own
		return true
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// nsqAddress returns where consumers of NSQ connect. There is such a listener where there is a lookup.
func (b *Broker) nsqAddress() net.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.listeners, func(l served) bool { return l.protocol == "nsq" })
	return b.listeners[i].Addr()
}

// serve serves a listener until it is closed.
func (b *Broker) serve(l served) error {
	if l.protocol == lookup {
		return b.lookup.Serve(l, l.secure)
	}
	return b.edges[l.protocol].Serve(l, l.secure)
}

// edge is a server of one protocol.
type edge interface {
	// Serve serves connections until l is closed; with a TLS configuration they have to
	// use TLS.
	Serve(l net.Listener, secure *tls.Config) error
	Review()
	Shutdown(ctx context.Context) error
	Stats() link.Stats
}

// mqttEdge is the server of MQTT, where TLS begins with the connection.
type mqttEdge struct{ *mqtt.Server }

func (e mqttEdge) Serve(l net.Listener, secure *tls.Config) error {
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	return e.Server.Serve(l)
}

func (e mqttEdge) Stats() link.Stats {
	m := e.Server.Stats()
	s := link.Stats{Connections: m.Connections, Turned: m.Turned, Refused: m.Refused, Dropped: m.Dropped, Closed: map[string]uint64{}}
	for code, n := range m.Closed {
		s.Closed[fmt.Sprintf("%#02x", code)] = n
	}
	return s
}

// served is an open listener, and how it is served.
type served struct {
	net.Listener
	protocol string
	secure   *tls.Config
	tcp      *net.TCPListener // what is below
}

// listen opens a listener.
func (b *Broker) listen(text string) (served, error) {
	at := parseListener(text)
	l, err := net.Listen("tcp", at.address)
	if err != nil {
		return served{}, err
	}
	s := served{Listener: l, protocol: at.protocol, tcp: l.(*net.TCPListener)}
	if at.protocol != lookup { // its server, net/http, says nothing before it runs for long
		s.Listener = stamp.ListenBrief(l)
	}
	if at.tls {
		s.secure = b.secure
	}
	return s, nil
}
