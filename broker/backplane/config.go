package backplane

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config describes the backplane of a node. The zero value is none: one node whose
// messages and sessions end with the process.
type Config struct {
	// Node is the name of this node, the same after a restart. Required where there is a
	// backplane.
	Node string
	// Data is the directory of the embedded NATS server. Required without URL.
	Data string
	// URL is a NATS cluster that runs elsewhere, several with commas between, instead of an
	// embedded server.
	URL string
	// Listen is the host:port at which the embedded server takes clients of NATS, such as
	// `spillgate place`. Default none.
	Listen string
	// Cluster is the host:port at which the embedded server takes the other nodes, Routes
	// are those of all nodes; this one may be among them. Default none: one node.
	Cluster string
	Routes  []string
	// CA, Cert and Key are PEM files: an authority, and a certificate of this node that it
	// has signed, with its key. Then nodes, and clients of Listen, must show a certificate
	// of that authority; with URL this node does. Default none: whoever reaches the
	// addresses is trusted.
	CA, Cert, Key string
	// Replicas is how many nodes store what must not be lost: 1, 3 or 5. Default 3 where
	// Routes names three nodes or more, otherwise 1. With 3 any one node may die, and
	// nothing is acknowledged while two are dead.
	Replicas int
	// MaxBytes is the most bytes of stored messages. Default 8 GiB, or half of what the disk has room for if that is
	// less, as found when the log is made. At that limit nothing is acknowledged until sessions have caught up or expired.
	MaxBytes int
	// MaxAge is the longest that a message is stored for sessions that are away. Default
	// one day.
	MaxAge time.Duration
	// Pending is the most messages that wait to be stored or sent on. Default 16,384; what
	// comes beyond is refused.
	Pending int
	// PendingBytes is the most bytes of these. Default 64 MiB.
	PendingBytes int
	// MaxMessage is the largest message, in bytes, with everything that belongs to it.
	// Default 1 MiB. A larger one is refused.
	MaxMessage int
	// Patience is how long storing is tried before a message is refused; a majority that
	// lost its leader finds another one meanwhile. Default 20 s.
	Patience time.Duration
}

// On reports whether there is a backplane.
func (c Config) On() bool { return c.Data != "" || c.URL != "" }

// WithDefaults returns c with the defaults filled in.
func (c Config) WithDefaults() Config {
	for _, f := range [...]struct {
		n     *int
		value int
	}{{&c.Pending, 16_384}, {&c.PendingBytes, 64 << 20}, {&c.MaxMessage, 1 << 20}} {
		if *f.n == 0 {
			*f.n = f.value
		}
	}
	if c.Replicas == 0 {
		c.Replicas = 1
		if c.nodes() >= 3 {
			c.Replicas = 3
		}
	}
	if c.MaxAge == 0 {
		c.MaxAge = 24 * time.Hour
	}
	if c.Patience == 0 {
		c.Patience = 20 * time.Second
	}
	return c
}

// onceFor is how long a stream tells numbers that it has from new ones: for longer than a message is sent to it again, which
// takes memory for every message of that time.
func (c Config) onceFor() time.Duration { return min(max(2*time.Minute, 2*c.Patience), c.MaxAge) }

// maxNode is the longest name of a node, in bytes.
const maxNode = 64

// Check calls wrong for every mistake in c: the field as configuration files name it,
// what was found and what was expected.
func (c Config) Check(wrong func(field, value, want string)) {
	if !c.On() {
		if c.Node != "" || c.Listen != "" || c.Cluster != "" || len(c.Routes) > 0 {
			wrong("data", `""`, "a directory for the embedded NATS server, or url for one that runs elsewhere")
		}
		return
	}
	if c.Data != "" && c.URL != "" {
		wrong("data", strconv.Quote(c.Data), "data for the NATS server in this process, or url for one that runs elsewhere")
	}
	if c.Node == "" || len(c.Node) > maxNode || strings.ContainsAny(c.Node, " \t\r\n.*>/\\") {
		wrong("node", strconv.Quote(c.Node), fmt.Sprintf("a name of its own for each node, 1 to %d bytes without blanks, dots, slashes, * and >", maxNode))
	}
	for _, f := range [...]struct{ field, address string }{{"listen", c.Listen}, {"cluster", c.Cluster}} {
		if f.address == "" {
			continue
		}
		if c.URL != "" {
			wrong(f.field, strconv.Quote(f.address), "nothing beside url, which is a server that runs elsewhere")
		}
		checkAddress(wrong, f.field, f.address)
	}
	for i, r := range c.Routes {
		checkAddress(wrong, fmt.Sprintf("routes[%d]", i), r)
	}
	if (c.CA != "") != (c.Cert != "") || (c.Cert != "") != (c.Key != "") {
		wrong("ca", fmt.Sprintf("%q, with cert %q and key %q", c.CA, c.Cert, c.Key), "ca, cert and key together, or none of them")
	}
	if len(c.Routes) > 0 && c.Cluster == "" {
		wrong("cluster", `""`, "the host:port at which this node takes the others, one of routes")
	}
	if r := c.Replicas; r != 0 && r != 1 && r != 3 && r != 5 || c.URL == "" && r > c.nodes() {
		wrong("replicas", strconv.Itoa(r), fmt.Sprintf("1, 3 or 5, and no more than the nodes, of which routes names %d", c.nodes()))
	}
	for _, f := range [...]struct {
		name           string
		n, least, most int
	}{{"max_bytes", c.MaxBytes, 1 << 20, 1 << 50}, {"pending", c.Pending, 1, 10_000_000}, {"pending_bytes", c.PendingBytes, 1 << 20, 1 << 40},
		{"max_message", c.MaxMessage, 1 << 20, 64 << 20}} {
		if f.n != 0 && (f.n < f.least || f.n > f.most) {
			wrong(f.name, strconv.Itoa(f.n), fmt.Sprintf("%d to %d, or 0 for the default", f.least, f.most))
		}
	}
	if c.MaxAge != 0 && (c.MaxAge < time.Minute || c.MaxAge > 365*24*time.Hour) {
		wrong("max_age", c.MaxAge.String(), "1m to 8760h, or 0 for the default")
	}
	if c.Patience < 0 || c.Patience > time.Hour {
		wrong("patience", c.Patience.String(), "above 0 and at most 1h, or 0 for the default")
	}
}

func checkAddress(wrong func(field, value, want string), field, address string) {
	_, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		wrong(field, strconv.Quote(address), "host:port, for example 10.0.0.1:6222")
	}
}
