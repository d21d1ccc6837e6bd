package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/reread"
	"github.com/spillgate/spillgate/telemetry"
)

const (
	// unreachableFor is how long the status page calls an upstream unreachable
	// after a connection failed.
	unreachableFor = time.Second
	// idleConnections is the most idle connections kept to one upstream.
	idleConnections = 1024
	// looks is how many upstreams a choice looks at. With more than that it
	// looks at that many, taken by chance.
	looks = 8
	// chosenBefore is how long an upstream that left takes requests that chose it
	// before: the time from the choice to the gate. A processor that lets them wait
	// for longer has them refused.
	chosenBefore = time.Second
	// pingAfter is how long an HTTP/2 connection to an upstream may be silent
	// before it must prove that it is alive, and how long the proof may take.
	pingAfter = 15 * time.Second
	// answerBuffer is how much of an answer over HTTP/2 is taken ahead of its client, in bytes: what each slow client costs. A
	// server whose round trip takes 1 ms can send 256 MB/s in one answer. By default it is 4 MiB.
	answerBuffer = 256 << 10
	// continueAfter is how long a body is held back for which a request expects 100 Continue of an upstream.
	continueAfter = time.Second
)

// upstream is one server behind the proxy and its gate.
type upstream struct {
	p       *Proxy
	cfg     Upstream
	group   string   // its name
	retries *retries // of the group
	name    string
	url     *url.URL // scheme http or https
	prefix  bool     // url has a path
	http1   bool     // it cannot speak gRPC
	// bodyTimeout is Limits.BodyTimeout.
	bodyTimeout time.Duration
	gate        *live.Gate
	made        Config // what the gate was made by; the objective is the gate's
	calls       atomic.Pointer[http.RoundTripper]
	sends       http.RoundTripper // by calls
	shared      map[string]bool   // workflows that ever had a share; with the lock of p
	target      *httpgate.Target
	base        *connections
	keys        *reread.File // of base
	metrics     *telemetry.Gate
	tallies     *tallies
	unwatch     atomic.Pointer[func() error]
	steering

	health                health
	silence               silence
	tardy                 tardy
	downUntil             atomic.Int64 // mono.Time; for the status page
	inside                atomic.Int64 // requests at it, those without a slot included
	failures              throttle
	failed, retried       mishaps         // requests, by kind of failure and by what was decided
	lifetime              context.Context // ends when it is closed or leaves
	endLife               context.CancelFunc
	goodChecks, badChecks atomic.Int64
	audit                 *auditLog // nil: none
	traced                traced
}

// newUpstream builds an upstream of g. learned is what the gate that it replaces has found
// out, nil if there was none.
func (p *Proxy) newUpstream(g *group, u Upstream, learned *live.Learned) (*upstream, error) {
	cfg := g.cfg
	target, _ := u.target() // checked before
	base, keys, err := connect(cfg.Limits, u, target.Scheme, cfg.Objective)
	if err != nil {
		return nil, err
	}
	up := &upstream{p: p, cfg: u, group: g.name, retries: g.retries, base: base, keys: keys, name: u.label(), prefix: target.Path != "" && target.Path != "/", http1: target.Scheme == "http", bodyTimeout: cfg.Limits.BodyTimeout, tallies: newTallies(u.label(), p.latency), made: cfg, shared: map[string]bool{}}
	up.lifetime, up.endLife = context.WithCancel(p.stopped)
	for name := range cfg.shares() {
		up.shared[name] = true
	}
	up.health.rule, up.health.goesOn = cfg.Health, cfg.Limits.Retries >= 0
	if target.Scheme == "h2c" {
		target.Scheme = "http"
	}
	up.url = target
	if up.metrics, err = p.metrics.NewGate(up.name, p.log); err != nil {
		return nil, err
	}
	gate := cfg.gated()
	gate.Learned = learned
	gate.Observe = func(e live.Event) {
		up.metrics.Observe(e)
		up.tallies.observe(e)
	}
	up.audit = cfg.Culprit.audit()
	gate.Culprit = cfg.Culprit.culprits(up.name, up.audit, up.metrics.Culprit)
	up.gate, err = live.NewGate(gate)
	if err != nil {
		return nil, err
	}
	up.calls.Store(up.caller(cfg.Objective))
	up.sends = &judged{up}
	reverse := &httputil.ReverseProxy{
		Rewrite:        up.rewrite,
		Transport:      up.sends,
		BufferPool:     p.buffers,
		ModifyResponse: func(r *http.Response) error { up.answered(r); return nil },
		ErrorHandler:   up.fail,
		ErrorLog:       log.New(io.Discard, "", 0), // what matters comes to fail
	}
	up.target = httpgate.NewTarget(up.gate, up.serve(reverse))
	return up, nil
}

// answered takes the header of an answer, before it is passed on.
func (u *upstream) answered(r *http.Response) {
	if v := u.p.visitOf(r.Request); v != nil {
		v.answered(r)
	}
	tidy(r)
	if b, _ := r.Request.Body.(*requestBody); r.StatusCode != http.StatusSwitchingProtocols {
		b.last(r.Header)
	}
}

// tidy takes off an answer what a server of HTTP/2 stumbles over: announced trailers that are none, which leave a stream
// without an end, and the length of a body that never comes, for which clients take the answer for one that is cut off.
func tidy(r *http.Response) {
	dropTrailers(r.Trailer)
	if r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified {
		delete(r.Header, "Content-Length")
	}
}

// newTransport returns what speaks HTTP/2 with one upstream, and HTTP/1 where that is all it can. No proxy is
// taken from the environment: the upstream is what the configuration says. With https, who makes it says how
// hands are shaken.
func newTransport(l Limits, scheme string, dial dialer, tlsConfig *tls.Config) *http.Transport {
	t := &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        tlsConfig,
		ResponseHeaderTimeout:  l.Response,
		MaxResponseHeaderBytes: int64(l.AnswerHeader),
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        l.IdleTimeout,
		ExpectContinueTimeout:  continueAfter,
		DisableCompression:     true, // the client's Accept-Encoding decides
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: answerBuffer, SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}
	switch scheme {
	case "h2c":
		t.Protocols.SetUnencryptedHTTP2(true)
	case "https":
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
	}
	return t
}

// http1Key is the key under which the context of a request says that its connection must speak
// HTTP/1.1: it asks to be upgraded, and HTTP/2 knows no such thing. What dials has the context's values.
type http1Key struct{}

// securely returns what dials and shakes hands. A handshake that fails is a connection that could
// not be made: nothing of a request was sent. http.Transport, which would shake hands itself, does
// not tell such an error from that of a request. agreed is told the protocol where there was a choice.
func securely(dial dialer, config *tls.Config, timeout time.Duration, agreed func(protocol string)) dialer {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	first := config.Clone()
	first.NextProtos = nil
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config
		if ctx.Value(http1Key{}) != nil {
			own = first
		}
		if own.ServerName == "" {
			own = own.Clone()
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		secure := tls.Client(c, own)
		if err := secure.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, &net.OpError{Op: "dial", Net: "tls", Addr: c.RemoteAddr(), Err: err}
		}
		if ctx.Value(http1Key{}) == nil {
			agreed(secure.ConnectionState().NegotiatedProtocol)
		}
		return secure, nil
	}
}

// watch reports the gate's state in metrics, until unwatched.
func (u *upstream) watch() error {
	stop, err := u.metrics.Watch(u.gate)
	if err == nil {
		u.unwatch.Store(&stop)
	}
	return err
}

func (u *upstream) stopWatching() {
	if stop := u.unwatch.Swap(nil); stop != nil {
		_ = (*stop)()
	}
}

// leave finishes what the upstream has, for as long as that may take, and closes
// it.
func (u *upstream) leave(ctx context.Context, timeout time.Duration) {
	defer u.forget()
	u.endLife()
	u.target.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			u.close()
			return
		case <-tick.C:
		}
		if s := u.gate.Stats(); time.Since(began) >= chosenBefore && s.Running+s.Waiting+s.Shaping == 0 {
			u.close()
			return
		}
	}
}

// forget drops the upstream's histograms, unless another one has its name. Addresses of names
// (Upstream.Resolve) come and go, and each has a name of its own.
func (u *upstream) forget() {
	p := u.p
	p.mu.Lock() // nobody begins with them meanwhile
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.state.Load().upstreams, func(other *upstream) bool { return other.name == u.name }) {
		p.metrics.ForgetGate(u.name)
		p.latency.Forget(u.name)
	}
}

func (u *upstream) close() {
	u.endLife()
	u.unsteer()
	u.target.Close()
	_ = u.gate.Close()
	u.traced.close()
	u.audit.close()
	u.base.CloseIdleConnections()
	u.stopWatching()
}

// choose names the upstream for a request: the one whose slots are least in use, where requests that
// wait for a slot and recent failures count as use. An upstream that is put out is chosen only if it
// is time for its probe.
func (p *Proxy) choose(r *http.Request) *httpgate.Target {
	g := p.state.Load().group(r)
	if g == nil {
		return nil // its group is gone this moment
	}
	u := least(g.upstreams, nil, claimOf(r), g.retries.left() && g.cfg.Limits.Retries >= 0 && r.ContentLength == 0 && mayTwice(r))
	p.visitOf(r).chose(u)
	p.logOf(r).at(u)
	return u.target
}

// least returns the upstream to choose, which is not the one given unless there is no
// other. What the request is for at one that is out goes to claim; nil is a request that claims nothing. mayGlance says
// that it may go to one that is silent, and then to another one: see health.
func least(all []*upstream, not *upstream, claim *claimed, mayGlance bool) *upstream {
	if len(all) == 1 {
		return all[0]
	}
	start := rand.IntN(len(all)) // so that equals share
	now := live.Now()
	var best *upstream
	least, in := 0.0, false
	for i := range len(all) {
		if i >= looks && in {
			break
		}
		u := all[(start+i)%len(all)]
		if len(all) > looks && i > 0 && i < looks {
			u = all[rand.IntN(len(all))]
		}
		if u == not {
			continue
		}
		out, due, failures := u.health.look(now, mayGlance)
		if due && claim != nil {
			if what := u.health.take(now, mayGlance); what != nothingElse {
				*claim = claimed{u, what}
				return u
			}
		}
		s := u.gate.Stats()
		load := (float64(s.Running+s.Waiting) + failures) / float64(max(s.Limit, 1))
		if best == nil || !out && !in || out != in && load < least {
			best, least, in = u, load, !out
		}
	}
	if best == nil {
		return not
	}
	return best
}

// buffers lends the memory through which bodies are copied.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
