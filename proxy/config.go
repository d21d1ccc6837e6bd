package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mistake"
	"github.com/spillgate/spillgate/internal/reread"
	"github.com/spillgate/spillgate/internal/urlpath"
)

// statusOverloaded is what some servers say if they are short; it is not registered.
const statusOverloaded = 529

// Config describes a proxy. Required are Objective, Listen and Upstreams; zero
// fields take the default named in their comment. Check finds every mistake.
type Config struct {
	// Mode is how far the gates' decisions go. Default live.Enforce. Can change
	// while the proxy runs.
	Mode live.Mode
	// Objective is the latency objective: the time from arrival to answer that
	// clients should see. Required, 1 ms to an hour. Can change while the proxy
	// runs; the gates keep what they have learned.
	Objective time.Duration
	// Listen are the addresses to serve on. At least one.
	Listen []Listener
	// Admin is the host:port of metrics, status and health endpoints, without
	// TLS, so it belongs on a private address. Default none.
	Admin string
	// Upstreams are the servers behind the proxy, each of which can serve every
	// request that no group matches. At least one, unless there are Groups; such requests
	// are answered 404 then. At most MaxUpstreams, those of groups included. Can change
	// while the proxy runs.
	Upstreams []Upstream
	// Groups are upstreams for requests to some hosts and paths. Default none. At most
	// MaxGroups. Can change while the proxy runs.
	Groups []Group
	// Trust are the networks whose tags and forwarding headers are believed:
	// those of other proxies and of one's own services. Default none.
	Trust []netip.Prefix
	// Exempt are paths that are never refused, nor delayed unless many come at once, for health checks. A
	// path that ends in a slash covers all below it, however a request writes it: see
	// httpgate.Paths. Default httpgate.ProbePaths where it is nil.
	Exempt []string
	// OverloadStatus is the HTTP status of requests that are refused because the upstream is short:
	// 503, 429 or 529. Default 503. Balancers that take a server with 503 out of service need
	// another. Can change while the proxy runs. gRPC has its own.
	OverloadStatus int
	// Health says when an upstream is passed over. Can change while the proxy
	// runs; new gates then begin with what the old ones learned of the servers.
	Health Health
	// Workflows are the workflows that are told apart, by name, and what they are
	// granted; classify.DefaultName is that of all other requests. Default none. Can
	// change while the proxy runs.
	Workflows map[string]Workflow
	// Rules say what a request is; the first that matches counts. Default none:
	// every request is of the default workflow, unless a trusted sender says
	// otherwise. Can change while the proxy runs.
	Rules []classify.Rule
	// Names is how many workflows are told apart that a rule takes from requests
	// and nobody listed, the first that come. Default 0: they share the default
	// workflow. At most MaxNames. Larger gives strangers who invent names more. Can
	// change while the proxy runs.
	Names int
	// Schedule is the order in which requests wait. Can change while the proxy
	// runs; new gates then begin with what the old ones learned of the servers.
	Schedule Schedule
	// Rates holds each workflow to a rate. Can change while the proxy runs; new
	// gates then begin with what the old ones learned of the servers.
	Rates Rates
	// Slots are how many requests each upstream works on at once. Default: that is
	// learned. Can change while the proxy runs; new gates then begin with what the old ones learned of the servers.
	Slots Slots
	// Share divides the slots between requests that go on to other services and those
	// that do not. Default off. Can change while the proxy runs; what is known of
	// classes then stays, unless Share.Classes change.
	Share Share
	// Culprit says how each gate looks for requests that keep others waiting for a slot.
	// Default: it names them. Can change while the proxy runs; new gates then begin with what the old ones learned of the servers.
	Culprit Culprit
	// Egress are the addresses at which the upstreams' own calls go out. Default none.
	// At most MaxEgress.
	Egress []Egress
	// Access describes the access log. Can change while the proxy runs.
	Access Access
	// Drain is the way out.
	Drain Drain
	// Limits bound what one client or all may take.
	Limits Limits
}

// MaxUpstreams is the most upstreams of one proxy: choosing looks at each.
const MaxUpstreams = 256

// Listener is an address that clients connect to.
type Listener struct {
	// Address is a host:port; port 0 takes a free one. unix:/path is a socket, whose
	// clients have no address.
	Address string
	// Cert and Key are PEM files; with them the listener speaks TLS only,
	// without them HTTP/1.1 and cleartext HTTP/2.
	Cert, Key string
	// More are further certificates: that of the name which a client asks for (SNI) is
	// shown, and Cert where none has the name. They need Cert.
	More []KeyPair
	// ClientCA is a PEM file; with it clients must show a certificate that it
	// signed.
	ClientCA string
	// Balancers are networks whose connections begin with a header of the PROXY protocol,
	// version 1 or 2, that says where they come from; one without is closed. Default
	// none. From other addresses connections are taken as they are, so nobody else can
	// say who he is.
	Balancers []netip.Prefix
	// Open lets every user of the machine connect to a socket. Default only its owner,
	// which is the user that the proxy runs as, as far as its directory allows.
	Open bool
	// Trusted has the clients of a socket believed as those of networks under Trust are:
	// they have no address to tell them by.
	Trusted bool
}

// KeyPair is a certificate and its key, as PEM files.
type KeyPair = reread.Pair

// maxKeyPairs is the most certificates of a listener.
const maxKeyPairs = 256

// Upstream is one server behind the proxy.
type Upstream struct {
	// Name is what logs, metrics and the status page call it. Default the host
	// and port of the URL. Two upstreams must not have the same name.
	Name string
	// URL says how to reach it: http:// is HTTP/1.1, h2c:// is cleartext HTTP/2
	// and what a gRPC server without TLS needs, https:// is TLS with HTTP/2 if
	// the server offers it. A path is put before that of every request. unix:/path is
	// HTTP/1.1 over the socket of that path, h2c+unix:/path cleartext HTTP/2.
	URL string
	// Resolve is how often the host's name is looked up again; each address that it has is
	// an upstream of its own then, called by the name and the address. One whose
	// address is gone finishes what it has. A lookup that fails changes nothing. Default 0:
	// one upstream, whose name is looked up for each connection. 1 s to an hour. The time
	// that the name's owner would have it kept is not known here: smaller sees changes
	// sooner and asks the name server more often.
	Resolve time.Duration
	// CA is a PEM file with the authorities that may sign the server's
	// certificate. Default those of the system.
	CA string
	// Cert and Key are PEM files of the certificate to show to the server.
	// Default none.
	Cert, Key string
	// Insecure accepts any certificate of the server.
	Insecure bool

	at string // host:port of the address, of one that was resolved
}

// Health says when an upstream is out of rotation, which is to get single requests as
// probes until one goes well. At most half of the upstreams are out for their
// answers, and all but one for not being reached.
type Health struct {
	// Failures is how many requests in a row must fail: answers 500, 502, 503 and
	// 504 (gRPC: INTERNAL and UNAVAILABLE alone), connections broken off, also in the
	// middle of an answer, and Limits.Response exceeded. One failure to connect is enough. It is also how many
	// requests must be without any answer, and answers after the objective, while other upstreams of the group answer, and
	// do so in time. Default 5.
	// Larger tolerates more errors of the application; smaller loses fewer
	// requests. Negative never puts one out; its failures then still count as
	// load for a while.
	Failures int
	// Pause is the time to the first probe. It doubles with each that fails, up
	// to 30 s, unless the upstream refused the connection at once and Limits.Retries are allowed. Default 1 s. Larger loses fewer requests to probes, smaller is
	// back sooner.
	Pause time.Duration
	// Check asks the upstreams themselves. Default off.
	Check Check
	// Ready is how many upstreams of each group must not be put out, or all if it has
	// fewer, for the proxy to call itself ready at the admin listener. When it starts, they must have
	// passed a check too. It needs Check:
	// without it, an upstream is back only once a request went well, and a proxy that is
	// not ready gets none. Default 0: it is ready when it serves. A balancer in front of
	// several proxies then sends nothing to one that can reach no upstream; where none of
	// them can, it may send nothing at all.
	Ready int
}

// Drain says how the proxy stops.
type Drain struct {
	// Notice is how long health checks fail while requests are still served, so
	// that balancers stop sending. Default 0; a balancer that asks every 5 s
	// needs more than that.
	Notice time.Duration
	// Timeout is how long requests inside may take to finish after the notice.
	// Default 30 s. What is left then is cut off.
	Timeout time.Duration
}

// defaultConnections is the most client connections where nothing else is configured.
const defaultConnections = 20_000

// Limits bound what clients may take. Zero fields take the default.
type Limits struct {
	// Connections is the most client connections at once. The next one takes the place
	// of that on which no request has run for longest, which is closed; it waits while
	// requests run on all. Default 20,000. Connections to Egress may be as many again. A process
	// that may not open enough files for them takes fewer, and says so in its log.
	Connections int
	// ClientConnections is the most connections of one client, which is an address, or of
	// IPv6 a network of 64 bits; one more is closed. ClientRequests is the most requests of
	// one client that are inside at once; one more is answered 429. Networks under
	// Trust have no such limits: their connections are of many clients. Default 0: none.
	ClientConnections, ClientRequests int
	// Requests bounds the requests that are inside at once, of all clients, those included that hold no slot: a
	// stream of HTTP/2 on which nothing happens takes some 20 kB. A client may have as many as there is room left
	// for, so a single one has at most half, and there is always room for others. One more is answered 429.
	// Clients under Trust may have all. Default twice Connections: a client alone then has at most as many streams
	// as it could have connections. Larger is for many long streams, and takes the memory.
	Requests int
	// Header is the largest request header, in bytes. Default 64 KiB. A larger
	// one is answered 431; net/http takes up to 4 KiB more before it does.
	Header int
	// HeaderTimeout is how long a client may take to send a header. Default
	// 10 s. A slower one is disconnected.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a client may be silent in the middle of the body of
	// an HTTP/1 request, or of one of announced length. Default 60 s. A slower one is
	// disconnected. Streams of HTTP/2 may be silent.
	BodyTimeout time.Duration
	// BodyBuffer is how much of a request body is read before the request asks for a
	// slot, in bytes; its length must be announced, or its client must send it without a pause.
	// Default 64 KiB; negative is none. A
	// client that sends such a body slowly holds nothing that others need. One that sends a
	// longer body slowly holds no slot, but a connection of the upstream: larger is better
	// for servers with a worker for each connection.
	BodyBuffer int
	// BodyRate is the least rate at which bodies of announced length, and all of HTTP/1, must
	// come, on average and after 5 s, in bytes per second. Default 240; negative is none, for
	// bodies that are streams of events. The answer then is 408.
	BodyRate int
	// SendTimeout is how long a client may take to read what is sent at once of an answer, at
	// most 256 KiB; of what is small, up to twice as long. Default 60 s. A slower one is disconnected, or loses its stream of
	// HTTP/2.
	SendTimeout time.Duration
	// IdleTimeout is how long a connection between two requests is kept, on both
	// sides. Default 90 s.
	IdleTimeout time.Duration
	// Streams is the most concurrent requests on one HTTP/2 connection. Default
	// 250.
	Streams int
	// Connect is how long connecting to an upstream may take, TLS included.
	// Default 5 s. The answer then is 504.
	Connect time.Duration
	// Response is how long an upstream may take from the end of the request to
	// the header of its response. Default 0: as long as the client waits. The
	// answer then is 504. It holds for calls through Egress as well.
	Response time.Duration
	// Away is the most requests of an upstream that hold no slot because they have
	// made a call through Egress. Default 1,000. One more keeps its slot while
	// its calls are under way. Larger lets more pile up in an upstream whose calls
	// are slow; smaller holds more slots for nothing.
	Away int
	// Retries is to how many further upstreams of its group a request is sent where no
	// connection to one could be made, or where one broke off before its answer and
	// the request may be executed twice (GET, HEAD, OPTIONS, TRACE without a body). Not
	// more than a tenth of the requests that went well are sent again, with at most ten
	// saved up. Default 2; negative is none.
	Retries int
	// AnswerHeader is the largest header of an upstream's answer, in bytes. Default 64
	// KiB. A larger one is answered 502.
	AnswerHeader int
}

// WithDefaults returns c with the defaults filled in.
func (c Config) WithDefaults() Config {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	if c.Exempt == nil {
		c.Exempt = httpgate.ProbePaths()
	}
	c.Health = c.Health.withDefaults()
	or(&c.Schedule.Aging, 5*time.Second)
	or(&c.Rates.Period, 100*time.Millisecond)
	if c.Rates.Quantile == 0 && c.Rates.IdleCost == 0 {
		c.Rates.Quantile = 0.5
	}
	c.Share = c.Share.withDefaults()
	c.Access = c.Access.withDefaults()
	or(&c.Drain.Timeout, 30*time.Second)
	or(&c.Limits.HeaderTimeout, 10*time.Second)
	or(&c.Limits.BodyTimeout, 60*time.Second)
	or(&c.Limits.SendTimeout, 60*time.Second)
	or(&c.Limits.IdleTimeout, 90*time.Second)
	or(&c.Limits.Connect, 5*time.Second)
	if c.Limits.Connections == 0 {
		c.Limits.Connections = defaultConnections
	}
	if c.Limits.Requests == 0 {
		c.Limits.Requests = 2 * c.Limits.Connections
	}
	if c.OverloadStatus == 0 {
		c.OverloadStatus = http.StatusServiceUnavailable
	}
	if c.Limits.Header == 0 {
		c.Limits.Header = 64 << 10
	}
	if c.Limits.BodyBuffer == 0 {
		c.Limits.BodyBuffer = 64 << 10
	}
	if c.Limits.BodyRate == 0 {
		c.Limits.BodyRate = 240
	}
	if c.Limits.Streams == 0 {
		c.Limits.Streams = 250
	}
	if c.Limits.Away == 0 {
		c.Limits.Away = 1000
	}
	if c.Limits.Retries == 0 {
		c.Limits.Retries = 2
	}
	if c.Limits.AnswerHeader == 0 {
		c.Limits.AnswerHeader = 64 << 10
	}
	return c
}

// Mistake is one thing wrong with a Config.
type Mistake = mistake.Mistake

// Check returns every mistake in c, in the order of its fields. It looks at no
// file and resolves no name.
func (c Config) Check() []*Mistake {
	var all []*Mistake
	wrong := func(field, value, want string) { all = append(all, &Mistake{Field: field, Value: value, Want: want}) }
	between := func(field string, d, least, most time.Duration) {
		if d < least || d > most {
			wrong(field, d.String(), fmt.Sprintf("%v to %v", least, most))
		}
	}

	if c.Mode > live.Off {
		wrong("mode", strconv.Itoa(int(c.Mode)), "off, monitor or enforce")
	}
	if c.Objective == 0 {
		wrong("slo", "", "the latency that clients should see, for example 100ms")
	} else {
		between("slo", c.Objective, time.Millisecond, time.Hour)
	}
	c.checkListeners(wrong)
	if c.Admin != "" {
		checkAddress(wrong, "admin", c.Admin)
		if i := slices.IndexFunc(c.Listen, func(l Listener) bool { return l.Address == c.Admin && !isFree(c.Admin) }); i >= 0 {
			wrong("admin", quote(c.Admin), fmt.Sprintf("an address of its own: listen[%d] has it", i))
		}
	}
	c.checkServers(wrong)
	for i, p := range c.Trust {
		if !p.IsValid() {
			wrong(fmt.Sprintf("trust[%d]", i), "an invalid network", "a network such as 10.0.0.0/8")
		}
	}
	if !slices.Contains([]int{0, http.StatusServiceUnavailable, http.StatusTooManyRequests, statusOverloaded}, c.OverloadStatus) {
		wrong("overload_status", strconv.Itoa(c.OverloadStatus), "503, 429 or 529")
	}
	for i, p := range c.Exempt {
		if want := urlpath.Want(p); want != "" {
			wrong(fmt.Sprintf("exempt[%d]", i), quote(p), want)
		}
	}
	c.checkWorkflows(wrong)
	c.checkShare(wrong)
	c.checkCulprit(wrong)
	c.checkEgress(wrong)
	c.Health.check(wrong, "health")
	c.Access.check(wrong)
	between("drain.notice", c.Drain.Notice, 0, 10*time.Minute)
	between("drain.timeout", c.Drain.Timeout, 0, time.Hour)
	c.Limits.check(wrong, between)
	return all
}

// check finds the mistakes in l.
func (l *Limits) check(wrong func(field, value, want string), between func(field string, d, least, most time.Duration)) {
	if n := l.Connections; n < 0 || n > 1_000_000 {
		wrong("limits.connections", strconv.Itoa(n), "1 to 1000000, or 0 for the default")
	}
	for _, each := range [...]struct {
		name  string
		value int
	}{{"client_connections", l.ClientConnections}, {"client_requests", l.ClientRequests}} {
		if each.value < 0 || each.value > 1_000_000 {
			wrong("limits."+each.name, strconv.Itoa(each.value), "1 to 1000000, or 0 for no limit")
		}
	}
	if n := l.Requests; n < 0 || n > 2_000_000 {
		wrong("limits.requests", strconv.Itoa(n), "1 to 2000000, or 0 for the default")
	}
	if n := l.Header; n != 0 && (n < 4096 || n > 16<<20) {
		wrong("limits.header", strconv.Itoa(n), "4096 to 16777216 bytes, or 0 for the default")
	}
	if n := l.AnswerHeader; n != 0 && (n < 4096 || n > 16<<20) {
		wrong("limits.answer_header", strconv.Itoa(n), "4096 to 16777216 bytes, or 0 for the default")
	}
	if n := l.Retries; n > 16 {
		wrong("limits.retries", strconv.Itoa(n), "1 to 16, 0 for the default, or never")
	}
	if n := l.Streams; n < 0 || n > 100_000 {
		wrong("limits.streams", strconv.Itoa(n), "1 to 100000, or 0 for the default")
	}
	between("limits.header_timeout", l.HeaderTimeout, 0, time.Hour)
	between("limits.body_timeout", l.BodyTimeout, 0, time.Hour)
	if n := l.BodyBuffer; n > 16<<20 {
		wrong("limits.body_buffer", strconv.Itoa(n), "1 to 16777216 bytes, 0 for the default, or never")
	}
	if n := l.BodyRate; n > 1<<30 {
		wrong("limits.body_rate", strconv.Itoa(n), "1 to 1073741824 bytes a second, 0 for the default, or never")
	}
	between("limits.send_timeout", l.SendTimeout, 0, 24*time.Hour)
	between("limits.idle_timeout", l.IdleTimeout, 0, 24*time.Hour)
	between("limits.connect", l.Connect, 0, time.Hour)
	between("limits.response", l.Response, 0, 24*time.Hour)
}

// checkListeners finds the mistakes in listen.
func (c *Config) checkListeners(wrong func(field, value, want string)) {
	if len(c.Listen) == 0 {
		wrong("listen", "", "at least one address, for example 127.0.0.1:8080")
	}
	addresses := map[string]int{}
	for i, l := range c.Listen {
		field := fmt.Sprintf("listen[%d]", i)
		checkAddress(wrong, field+".address", l.Address)
		if first, dup := addresses[l.Address]; dup && l.Address != "" && !strings.HasSuffix(l.Address, ":0") {
			wrong(field+".address", quote(l.Address), fmt.Sprintf("an address of its own: listen[%d] has it", first))
		} else {
			addresses[l.Address] = i
		}
		checkPair(wrong, field, l.Cert, l.Key)
		l.checkMore(wrong, field)
		if l.ClientCA != "" && l.Cert == "" {
			wrong(field+".client_ca", quote(l.ClientCA), "cert and key beside it: without TLS clients show no certificate")
		}
	}
}

// checkMore finds the mistakes in what l may have besides, in field.
func (l Listener) checkMore(wrong func(field, value, want string), field string) {
	if n := len(l.More); n > maxKeyPairs {
		wrong(field+".certs", strconv.Itoa(n)+" certificates", fmt.Sprintf("at most %d", maxKeyPairs))
	}
	for i, k := range l.More {
		at := fmt.Sprintf("%s.certs[%d]", field, i)
		checkPair(wrong, at, k.Cert, k.Key)
		if k == (KeyPair{}) {
			wrong(at+".cert", "", "a PEM file with a certificate")
		}
	}
	if len(l.More) > 0 && l.Cert == "" {
		wrong(field+".certs", "", "cert and key beside it, for clients that name none of them")
	}
	for i, n := range l.Balancers {
		if !n.IsValid() {
			wrong(fmt.Sprintf("%s.proxy_protocol[%d]", field, i), "an invalid network", "a network such as 10.0.0.0/8")
		}
	}
	if (l.Open || l.Trusted) && !strings.HasPrefix(l.Address, unixScheme) {
		wrong(field+".address", quote(l.Address), "unix:/path beside open and trusted: they are about sockets")
	}
	if len(l.Balancers) > 0 && strings.HasPrefix(l.Address, unixScheme) {
		wrong(field+".proxy_protocol", "", "an address with a port beside it: the clients of a socket have no address")
	}
}

// checkServers finds the mistakes in upstreams and groups.
func (c *Config) checkServers(wrong func(field, value, want string)) {
	total := len(c.Upstreams)
	for _, g := range c.Groups {
		total += len(g.Upstreams)
	}
	switch {
	case len(c.Upstreams) == 0 && len(c.Groups) == 0:
		wrong("upstreams", "", "at least one server, for example http://127.0.0.1:9000")
	case total > MaxUpstreams:
		wrong("upstreams", strconv.Itoa(total)+" servers", fmt.Sprintf("at most %d", MaxUpstreams))
	}
	names := map[string]string{}
	checkUpstreams(wrong, "upstreams", c.Upstreams, names)
	c.checkGroups(wrong, names)
	c.checkLoops(wrong, "upstreams", c.Upstreams)
	for i := range c.Groups {
		c.checkLoops(wrong, fmt.Sprintf("groups[%d].upstreams", i), c.Groups[i].Upstreams)
	}
}

// checkLoops finds the upstreams in list that are the proxy itself: each request to one would
// come back until all slots are taken, and be refused as if the server were at its capacity.
func (c *Config) checkLoops(wrong func(field, value, want string), list string, all []Upstream) {
	for i, u := range all {
		for k := range c.Listen {
			if c.Listen[k].is(u) {
				wrong(fmt.Sprintf("%s[%d].url", list, i), quote(u.URL), fmt.Sprintf("the address of a server: this is listen[%d], the proxy's own", k))
			}
		}
	}
}

// is reports whether a connection to u reaches l, as far as their addresses tell without a
// look-up.
func (l *Listener) is(u Upstream) bool {
	if path, scheme := u.socket(); scheme != "" {
		return l.Address == unixScheme+path
	}
	target, mistake := u.target()
	host, port, err := net.SplitHostPort(l.Address)
	if mistake != "" || err != nil || port != portOf(target) {
		return false
	}
	at, _ := netip.ParseAddr(numeric(host))
	to, _ := netip.ParseAddr(numeric(target.Hostname()))
	if host == "" || at.IsUnspecified() {
		return to.IsLoopback() || to.IsUnspecified()
	}
	return host == target.Hostname() || at.IsValid() && at == to
}

// numeric is host, and an address in place of the name that every system gives to itself.
func numeric(host string) string {
	if host == "localhost" {
		return "127.0.0.1"
	}
	return host
}

// checkUpstreams finds the mistakes in upstreams that stand in a field. names are those of
// others, and get theirs.
func checkUpstreams(wrong func(field, value, want string), list string, all []Upstream, names map[string]string) {
	for i, u := range all {
		field := fmt.Sprintf("%s[%d]", list, i)
		u.check(wrong, field)
		if _, mistake := u.target(); mistake == "" {
			name := u.label()
			if first, dup := names[name]; dup {
				wrong(field+".name", quote(name), "a name of its own: "+first+" has it")
			} else {
				names[name] = field
			}
		}
	}
}

// check finds the mistakes in u alone, which stands in field.
func (u Upstream) check(wrong func(field, value, want string), field string) {
	target, mistake := u.target()
	if mistake != "" {
		value := ""
		if u.URL != "" {
			value = quote(redact(u.URL))
		}
		wrong(field+".url", value, mistake)
	}
	switch {
	case len(u.Name) > 64:
		wrong(field+".name", quote(u.Name[:64]+"…"), "at most 64 bytes")
	case !utf8.ValidString(u.Name):
		wrong(field+".name", quote(u.Name), "UTF-8: it is a label of metrics")
	}
	u.checkResolve(wrong, field, target)
	checkPair(wrong, field, u.Cert, u.Key)
	if target != nil && target.Scheme != "https" {
		for _, f := range [...]struct{ name, value string }{{"ca", u.CA}, {"cert", u.Cert}} {
			if f.value != "" {
				wrong(field+"."+f.name, quote(f.value), "an https:// url beside it: the connection has no TLS")
			}
		}
		if u.Insecure {
			wrong(field+".insecure", "true", "an https:// url beside it: the connection has no TLS")
		}
	}
	if u.Insecure && u.CA != "" {
		wrong(field+".insecure", "true", "no ca beside it: insecure accepts any certificate, so the ca would never be asked")
	}
}

func checkAddress(wrong func(field, value, want string), field, address string) {
	if address == "" {
		wrong(field, "", "host:port, for example 127.0.0.1:8080 or :8080")
		return
	}
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		checkSocket(wrong, field, path)
		return
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		wrong(field, quote(address), "host:port with a port from 0 to 65535, for example 127.0.0.1:8080, [::1]:8080 or :8080")
	}
}

func checkPair(wrong func(field, value, want string), field, cert, key string) {
	switch {
	case cert != "" && key == "":
		wrong(field+".key", "", "the key of cert "+quote(cert))
	case key != "" && cert == "":
		wrong(field+".cert", "", "the certificate of key "+quote(key))
	}
}

// quote shows a value from outside, cut to a readable length.
func quote(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return strconv.Quote(s)
}

// redact hides a password in a URL that will be shown.
func redact(s string) string {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		return u.Redacted()
	}
	return s
}
