package broker

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/nats"
	"github.com/spillgate/spillgate/broker/nsq"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/mistake"
)

// DefaultListen is the address of a broker without Config.Listen.
const DefaultListen = "127.0.0.1:1883"

// Config describes a broker. Nothing is required; zero fields take the default
// named in their comment. Check finds every mistake.
type Config struct {
	// Listen are the addresses to serve on: host:port for MQTT, or with the protocol in
	// front, nats://host:port, and with TLS, mqtt+tls://host:port. At nsqlookup://host:port
	// consumers of NSQ are told over HTTP where to connect. Default
	// DefaultListen. An address that other machines can reach needs users, see Access.
	Listen []string
	// TLS are the files of the listeners with TLS.
	TLS TLS
	// Access has the users and their rights. Default: clients of this machine may do
	// everything, others nothing. Can change while the broker runs; clients whose user
	// changed are disconnected.
	Access access.Config
	// Admin is the host:port of metrics, status and health endpoints; keep it private.
	// Default none.
	Admin string
	// Limits are those of topics; the first that matches a topic counts. At most
	// engine.MaxLimits. Default none. Can change while the broker runs.
	Limits []engine.Limit
	// Cluster joins the node to others, and stores messages and sessions that must outlive
	// the process. Default neither: one node, all in memory.
	Cluster backplane.Config
	// Place says how the node takes part in the placement of publishers, which needs
	// Cluster.
	Place Place
	// Clients bound what one client of MQTT may take; NATS and NSQ do so for a client of
	// theirs.
	Clients mqtt.Limits
	NATS    nats.Limits
	NSQ     nsq.Limits
	// Topics is the most topics at once. Default 100,000. Beyond that, topics unused
	// for a minute make room, or new ones are refused.
	Topics int
	// Subscriptions is the most subscriptions of all clients. Default 1,000,000.
	Subscriptions int
	// RetainedBytes is the most bytes of retained messages. Default 64 MiB. What
	// comes beyond is delivered and not retained.
	RetainedBytes int
	// Memory is how many bytes the process may use before garbage is collected; it
	// makes next to none while it only carries messages. Default 1 GiB. The program
	// sets it, unless GOGC or GOMEMLIMIT are set; this package does not. Larger
	// collects less often; much smaller than the messages and sessions it holds costs
	// processor time.
	Memory int
	// Drain says how the broker stops.
	Drain Drain
}

// Place says how a node takes part in the placement of publishers.
type Place struct {
	// Address is where clients find the node, as host:port. With Capacity the node enters
	// itself into the state. Default: `spillgate place node` enters it.
	Address string
	// Capacity is what the node serves within its topics' objectives, in messages a second.
	Capacity float64
	// Listen is the host:port at which the node answers GET /v1/place, see place.Handler.
	// Default none.
	Listen string
}

func (p Place) check(wrong func(field, value, want string), cluster bool) {
	if p != (Place{}) && !cluster {
		wrong("place", "set", "cluster.data or cluster.url, where places are kept")
	}
	if (p.Address != "") != (p.Capacity != 0) {
		wrong("place.capacity", fmt.Sprint(p.Capacity), "address and capacity together, or neither")
	}
	if p.Capacity != 0 && !(p.Capacity > 0 && p.Capacity <= place.MaxRate) {
		wrong("place.capacity", fmt.Sprint(p.Capacity), "messages a second, above 0 and at most 1e9")
	}
	if p.Address != "" {
		checkAddress(wrong, "place.address", p.Address)
		if strings.HasPrefix(p.Address, ":") {
			wrong("place.address", strconv.Quote(p.Address), "a host that clients reach, for example 10.0.0.1:1883")
		}
	}
	if p.Listen != "" {
		checkAddress(wrong, "place.listen", p.Listen)
	}
}

// Drain says how the broker stops.
type Drain struct {
	// Notice is how long health checks fail while clients are still served. Default
	// 0.
	Notice time.Duration
	// Timeout is how long waiting messages may still be released after the notice. Then
	// clients are disconnected. Default 5 s.
	Timeout time.Duration
}

// WithDefaults returns c with the defaults filled in.
func (c Config) WithDefaults() Config {
	if len(c.Listen) == 0 {
		c.Listen = []string{DefaultListen}
	}
	if c.Memory == 0 {
		c.Memory = 1 << 30
	}
	if c.Drain.Timeout == 0 {
		c.Drain.Timeout = 5 * time.Second
	}
	return c
}

// Mistake is one thing wrong with a Config.
type Mistake = mistake.Mistake

// Check returns every mistake in c, in the order of its fields.
func (c Config) Check() []*Mistake {
	var all []*Mistake
	wrong := func(field, value, want string) { all = append(all, &Mistake{Field: field, Value: value, Want: want}) }
	within := func(prefix string) func(field, value, want string) {
		return func(field, value, want string) { wrong(prefix+"."+field, value, want) }
	}
	seen := map[string]int{}
	for i, a := range c.Listen {
		field := fmt.Sprintf("listen[%d]", i)
		parseListener(a).check(wrong, field, a)
		if first, dup := seen[a]; dup {
			wrong(field, strconv.Quote(a), fmt.Sprintf("an address of its own: listen[%d] has it", first))
		}
		seen[a] = i
	}
	c.checkLookup(wrong)
	c.checkTLS(wrong)
	c.Access.Check(wrong)
	if c.Admin != "" {
		checkAddress(wrong, "admin", c.Admin)
	}
	if n := len(c.Limits); n > engine.MaxLimits {
		wrong("limits", strconv.Itoa(n)+" limits", fmt.Sprintf("at most %d", engine.MaxLimits))
	}
	filters := map[string]int{}
	for i, l := range c.Limits {
		field := fmt.Sprintf("limits[%d]", i)
		l.Check(within(field))
		if first, dup := filters[l.Filter]; dup && l.Filter != "" {
			wrong(field+".filter", strconv.Quote(l.Filter), fmt.Sprintf("a filter of its own: limits[%d] has it", first))
		} else {
			filters[l.Filter] = i
		}
	}
	c.Cluster.Check(within("cluster"))
	if full := c.Cluster.WithDefaults(); c.Cluster.On() && full.MaxMessage < c.Clients.WithDefaults().Packet+backplane.MaxOverhead {
		wrong("cluster.max_message", strconv.Itoa(full.MaxMessage), fmt.Sprintf("at least %d, which is clients.packet and what goes with it: a larger message could not be stored", c.Clients.WithDefaults().Packet+backplane.MaxOverhead))
	}
	c.Place.check(wrong, c.Cluster.On())
	c.Clients.Check(within("clients"))
	c.NATS.Check(within("nats"))
	c.NSQ.Check(within("nsq"))
	for _, f := range [...]struct {
		name        string
		n           int
		least, most int
	}{{"topics", c.Topics, 1, 10_000_000}, {"subscriptions", c.Subscriptions, 1, 100_000_000}, {"retained_bytes", c.RetainedBytes, 1, 1 << 40},
		{"memory", c.Memory, 64 << 20, 1 << 44}} {
		if f.n != 0 && (f.n < f.least || f.n > f.most) {
			wrong(f.name, strconv.Itoa(f.n), fmt.Sprintf("%d to %d, or 0 for the default", f.least, f.most))
		}
	}
	for _, f := range [...]struct {
		name string
		d    time.Duration
	}{{"drain.notice", c.Drain.Notice}, {"drain.timeout", c.Drain.Timeout}} {
		if f.d < 0 || f.d > 10*time.Minute {
			wrong(f.name, f.d.String(), "0s to 10m")
		}
	}
	return all
}

func checkAddress(wrong func(field, value, want string), field, address string) {
	_, port, err := net.SplitHostPort(address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n > 65535 {
		wrong(field, strconv.Quote(address), "host:port, for example 127.0.0.1:1883 or :1883")
	}
}
