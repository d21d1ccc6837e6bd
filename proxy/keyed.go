package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/spillgate/spillgate/internal/http1"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/reread"
)

// lookAtKeys reads the certificates again whose files changed.
func (p *Proxy) lookAtKeys() {
	p.mu.Lock()
	all := append([]*reread.File(nil), p.keys...)
	p.mu.Unlock()
	for _, u := range p.state.Load().upstreams {
		all = append(all, u.keys)
	}
	for _, x := range p.exits {
		all = append(all, x.keys)
	}
	for _, k := range all {
		k.Look(p.log)
	}
}

// serverTLS returns the TLS configuration of a listener, nil without TLS, which is the
// newest for each connection.
func (p *Proxy) serverTLS(l Listener) (*tls.Config, error) {
	if l.Cert == "" {
		return nil, nil
	}
	c, k, err := l.server().Newest("listen", l.Address)
	if err != nil {
		return nil, l.failed(err)
	}
	p.mu.Lock()
	p.keys = append(p.keys, k)
	p.mu.Unlock()
	p.log.Info("certificate", append([]any{"listen", l.Address}, reread.Expiry(c)...)...)
	return c, nil
}

// connections are those to one server. They are made anew when its certificates change.
type connections struct {
	current atomic.Pointer[ways]
	keeper  *keeper // nil: connections are always kept
}

// ways are how a server is reached: over HTTP/1, over HTTP/2, or, with TLS, as the last handshake agreed.
type ways struct {
	one *http1.Client   // nil: never
	two *http.Transport // nil: never; it speaks HTTP/1 too, where a handshake surprises it
	// only is that the last handshake agreed on HTTP/1.
	only atomic.Bool
}

// connect returns the connections to an upstream or to a server that is called through
// Egress, and the files that they depend on. With an objective, connections of HTTP/1
// without TLS are kept only while the server bears that.
func connect(l Limits, u Upstream, scheme string, objective time.Duration) (*connections, *reread.File, error) {
	first, err := u.client()
	if err != nil {
		return nil, nil, err
	}
	target, mistake := u.target()
	if mistake != "" {
		return nil, nil, &Mistake{Field: "url", Value: u.URL, Want: mistake}
	}
	host, err := httpguts.PunycodeHostPort(net.JoinHostPort(target.Hostname(), portOf(target)))
	if err != nil {
		return nil, nil, err
	}
	c, dial := &connections{}, u.dialer(l.Connect)
	if u.fixed(target) {
		dial = redialing(dial, l.Connect)
	}
	if objective > 0 && scheme == "http" {
		c.keeper = newKeeper(objective, c.CloseIdleConnections)
		dial = c.keeper.dialer(dial)
	}
	var keep func() bool
	if c.keeper != nil {
		keep = c.keeper.keeps
	}
	c.current.Store(newWays(l, scheme, host, dial, keep, first))
	renew := func() ([]any, error) {
		t, err := u.client()
		if err != nil {
			return nil, err
		}
		c.current.Swap(newWays(l, scheme, host, dial, keep, t)).leave()
		return reread.Expiry(t), nil
	}
	return c, reread.New("certificates", []string{u.CA, u.Cert, u.Key}, renew, "upstream", u.label()), nil
}

// newWays returns the ways to a server at a host and port. keep is http1.Config.Keep.
func newWays(l Limits, scheme, host string, dial dialer, keep func() bool, tlsConfig *tls.Config) *ways {
	w := &ways{}
	if scheme == "h2c" {
		w.two = newTransport(l, scheme, dial, tlsConfig)
		return w
	}
	cfg := http1.Config{
		Dial:   func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", host) },
		Header: int64(l.AnswerHeader), Response: l.Response, Continue: continueAfter, Idle: idleConnections, IdleTime: l.IdleTimeout, Keep: keep,
	}
	if scheme == "https" {
		w.two = newTransport(l, scheme, dial, tlsConfig)
		secure := securely(dial, tlsConfig, l.Connect, func(protocol string) { w.only.Store(protocol != "h2") })
		w.two.DialTLSContext = secure
		cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			c, err := secure(ctx, "tcp", host)
			if err == nil && c.(*tls.Conn).ConnectionState().NegotiatedProtocol == "h2" {
				c.Close()
				return nil, http1.ErrOther
			}
			return c, err
		}
	}
	w.one = http1.New(cfg)
	return w
}

// RoundTrip implements http.RoundTripper.
func (w *ways) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case w.two == nil:
		return w.one.RoundTrip(r)
	case w.one == nil:
		return w.two.RoundTrip(withoutUpgrade(r))
	}
	upgrade := r.Header["Upgrade"] != nil
	if upgrade {
		r = r.WithContext(context.WithValue(r.Context(), http1Key{}, true))
	}
	if upgrade || w.only.Load() {
		resp, err := w.one.RoundTrip(r)
		if !errors.Is(err, http1.ErrOther) {
			return resp, err
		}
	}
	return w.two.RoundTrip(withoutUpgrade(r))
}

// withoutUpgrade returns r, or without what asks for an upgrade, which HTTP/2 knows none of: its transport fails at that, and a
// server may ignore it (RFC 9110 §7.8).
func withoutUpgrade(r *http.Request) *http.Request {
	if r.Header["Upgrade"] == nil {
		return r
	}
	plain := *r
	plain.Header = maps.Clone(r.Header)
	delete(plain.Header, "Upgrade")
	delete(plain.Header, "Connection")
	return &plain
}

// leave has no connection kept any more.
func (w *ways) leave() {
	if w.one != nil {
		w.one.Close()
	}
	if w.two != nil {
		w.two.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.keeper == nil {
		return c.current.Load().RoundTrip(r)
	}
	sent := live.Now()
	resp, err := c.current.Load().RoundTrip(c.keeper.sent(r))
	if err != nil && meaning(r.Context(), err) == brokeOff {
		c.keeper.failed(sent, err)
	}
	return resp, err
}

// CloseIdleConnections closes those that no request uses.
func (c *connections) CloseIdleConnections() {
	w := c.current.Load()
	if w.one != nil {
		w.one.CloseIdleConnections()
	}
	if w.two != nil {
		w.two.CloseIdleConnections()
	}
}
