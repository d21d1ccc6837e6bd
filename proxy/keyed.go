package proxy

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// keysPoll is how often the files of certificates are looked at. Reload looks at once.
const keysPoll = 10 * time.Second

// keyed is a TLS configuration made of files. It is made anew when what they hold changes;
// files that do not fit leave it as it was, as while one of a pair has been replaced. look
// is called by one goroutine at a time.
type keyed struct {
	whose []any    // of the log
	files []string // some may be empty
	load  func() (*tls.Config, error)
	take  func(*tls.Config)

	mu   sync.Mutex
	seen [sha256.Size]byte // of the files when they were read
}

// newKeyed describes a configuration that was made a moment ago.
func newKeyed(load func() (*tls.Config, error), take func(*tls.Config), files []string, whose ...any) *keyed {
	k := &keyed{whose: whose, files: files, load: load, take: take}
	k.seen = k.sum()
	return k
}

// sum is that of all that the files hold. One that cannot be read counts as empty.
func (k *keyed) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, f := range k.files {
		if f == "" {
			continue
		}
		text, _ := os.ReadFile(f)
		one := sha256.Sum256(text)
		h.Write(one[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// look reads the files again if they changed.
func (k *keyed) look(log *slog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := k.sum()
	if sum == k.seen {
		return
	}
	k.seen = sum
	log = log.With(k.whose...)
	c, err := k.load()
	if err != nil {
		log.Error("certificates not taken; the old ones stay", "error", err)
		return
	}
	k.take(c)
	log.Info("certificates read again", expiry(c)...)
}

// expiry is what the log says of a configuration's certificates: of several, the one that
// expires first.
func expiry(c *tls.Config) []any {
	var first *x509.Certificate
	for i := range c.Certificates {
		if leaf := c.Certificates[i].Leaf; leaf != nil && (first == nil || leaf.NotAfter.Before(first.NotAfter)) {
			first = leaf
		}
	}
	if first == nil {
		return nil
	}
	out := []any{"subject", first.Subject.String(), "expires", first.NotAfter.UTC().Format(time.RFC3339)}
	if n := len(c.Certificates); n > 1 {
		out = append(out, "certificates", n)
	}
	return out
}

// lookAtKeys reads the certificates again whose files changed.
func (p *Proxy) lookAtKeys() {
	p.mu.Lock()
	all := append([]*keyed(nil), p.keys...)
	p.mu.Unlock()
	for _, u := range p.state.Load().upstreams {
		all = append(all, u.keys)
	}
	for _, x := range p.exits {
		all = append(all, x.keys)
	}
	for _, k := range all {
		k.look(p.log)
	}
}

// watchKeys looks at certificates until ctx ends.
func (p *Proxy) watchKeys(ctx context.Context) {
	tick := time.NewTicker(keysPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.lookAtKeys()
		}
	}
}

// serverTLS returns the TLS configuration of a listener, nil without TLS, which is the
// newest for each connection.
func (p *Proxy) serverTLS(l Listener) (*tls.Config, error) {
	first, err := l.server()
	if first == nil || err != nil {
		return nil, err
	}
	var newest atomic.Pointer[tls.Config]
	newest.Store(first)
	files := []string{l.Cert, l.Key, l.ClientCA}
	for _, k := range l.More {
		files = append(files, k.Cert, k.Key)
	}
	k := newKeyed(l.server, newest.Store, files, "listen", l.Address)
	p.mu.Lock()
	p.keys = append(p.keys, k)
	p.mu.Unlock()
	p.log.Info("certificate", append([]any{"listen", l.Address}, expiry(first)...)...)
	outer := first.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return newest.Load(), nil }
	return outer, nil
}

// connections are those to one server. They are made anew when its certificates change.
type connections struct {
	current atomic.Pointer[http.Transport]
}

// connect returns the connections to an upstream or to a server that is called through
// Egress, and the files that they depend on.
func connect(l Limits, u Upstream, scheme string) (*connections, *keyed, error) {
	first, err := u.client()
	if err != nil {
		return nil, nil, err
	}
	c := &connections{}
	c.current.Store(newTransport(l, scheme, u.dialer(l.Connect), first))
	renew := func(t *tls.Config) {
		c.current.Swap(newTransport(l, scheme, u.dialer(l.Connect), t)).CloseIdleConnections()
	}
	return c, newKeyed(u.client, renew, []string{u.CA, u.Cert, u.Key}, "upstream", u.label()), nil
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.current.Load().RoundTrip(r)
}

// CloseIdleConnections closes those that no request uses.
func (c *connections) CloseIdleConnections() { c.current.Load().CloseIdleConnections() }
