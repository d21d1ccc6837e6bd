package proxy

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync/atomic"
	"time"

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
	current atomic.Pointer[http.Transport]
	keeper  *keeper // nil: connections are always kept
}

// connect returns the connections to an upstream or to a server that is called through
// Egress, and the files that they depend on. With an objective, connections of HTTP/1
// without TLS are kept only while the server bears that.
func connect(l Limits, u Upstream, scheme string, objective time.Duration) (*connections, *reread.File, error) {
	first, err := u.client()
	if err != nil {
		return nil, nil, err
	}
	c, dial := &connections{}, u.dialer(l.Connect)
	if objective > 0 && scheme == "http" {
		c.keeper = newKeeper(objective, c.CloseIdleConnections)
		dial = c.keeper.dialer(dial)
	}
	c.current.Store(newTransport(l, scheme, dial, first))
	renew := func() ([]any, error) {
		t, err := u.client()
		if err != nil {
			return nil, err
		}
		c.current.Swap(newTransport(l, scheme, dial, t)).CloseIdleConnections()
		return reread.Expiry(t), nil
	}
	return c, reread.New("certificates", []string{u.CA, u.Cert, u.Key}, renew, "upstream", u.label()), nil
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.keeper == nil {
		if r.Header["Upgrade"] != nil && r.URL.Scheme == "https" {
			r = r.WithContext(context.WithValue(r.Context(), http1Key{}, true))
		}
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
func (c *connections) CloseIdleConnections() { c.current.Load().CloseIdleConnections() }
