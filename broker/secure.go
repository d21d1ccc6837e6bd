package broker

import (
	"fmt"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/internal/reread"
)

// TLS names the PEM files of listeners with TLS. The files are read again when they
// change; connections that exist stay as they are.
type TLS struct {
	// Cert and Key are the certificate, with what leads to an authority, and its key.
	// Required where a listener has TLS.
	Cert, Key string
	// ClientCA are the authorities one of which must have signed a client's
	// certificate. Default none: clients need no certificate.
	ClientCA string
}

func (t TLS) server() reread.Server {
	return reread.Server{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA}
}

// CheckFiles returns every mistake in the files that c names: certificates that do
// not load, keys that do not fit, passwords that cannot be read.
func (c Config) CheckFiles() []*Mistake {
	var all []*Mistake
	wrong := func(field, value, want string) { all = append(all, &Mistake{Field: field, Value: value, Want: want}) }
	reread.CheckPair(wrong, "tls.cert", c.TLS.Cert, c.TLS.Key)
	reread.CheckAuthorities(wrong, "tls.client_ca", c.TLS.ClientCA)
	reread.CheckPair(wrong, "cluster.cert", c.Cluster.Cert, c.Cluster.Key)
	reread.CheckAuthorities(wrong, "cluster.ca", c.Cluster.CA)
	c.Access.CheckFiles(wrong)
	return all
}

// checkTLS calls wrong for what is wrong with TLS and with who may come from where.
func (c Config) checkTLS(wrong func(field, value, want string)) {
	secure := false
	for i, text := range c.Listen {
		l := parseListener(text)
		secure = secure || l.tls
		if !l.local() && !c.Access.Remote() {
			wrong(fmt.Sprintf("listen[%d]", i), fmt.Sprintf("%q, which other machines reach, without users", text),
				"users, an address of this machine such as 127.0.0.1:1883, or anonymous: {from: anywhere}")
		}
	}
	for _, f := range [...]struct{ name, file, other string }{{"cert", c.TLS.Cert, c.TLS.Key}, {"key", c.TLS.Key, c.TLS.Cert}} {
		if f.file == "" && (f.other != "" || secure || c.TLS.ClientCA != "") {
			wrong("tls."+f.name, "", "a PEM file: a listener has TLS, or another key of tls is there")
		}
	}
	if c.TLS.Cert != "" && !secure {
		wrong("tls.cert", fmt.Sprintf("%q, and no listener with TLS", c.TLS.Cert), "a listener such as mqtt+tls://:8883, or no key tls")
	}
}

// lock prepares users and TLS.
func (b *Broker) lock(cfg Config) (err error) {
	if b.users, err = access.New(cfg.Access); err != nil {
		return fmt.Errorf("broker: passwords: %w", err)
	}
	if cfg.TLS.Cert == "" {
		return nil
	}
	secure, file, err := cfg.TLS.server().Newest("of", "broker")
	if err != nil {
		return fmt.Errorf("broker: tls: %w", err)
	}
	b.secure, b.certificates = secure, file
	b.log.Info("certificate", reread.Expiry(secure)...)
	return nil
}

// setUsers takes other users, and has clients disconnected that changed. The lock is
// held.
func (b *Broker) setUsers(next access.Config) error {
	if err := b.users.Set(next); err != nil {
		return fmt.Errorf("passwords: %w", err)
	}
	b.cfg.Access = next
	b.passwords = nil
	if next.Passwords != "" {
		b.passwords = reread.New("passwords", []string{next.Passwords}, func() ([]any, error) {
			err := b.users.Set(next)
			if err == nil {
				b.review()
			}
			return []any{"users", b.users.Users()}, err
		}, "file", next.Passwords)
	}
	b.review()
	return nil
}

// review has every edge look at its clients again.
func (b *Broker) review() {
	for _, e := range b.edges {
		e.Review()
	}
}

// look reads files again that changed.
func (b *Broker) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range []*reread.File{b.certificates, b.passwords} {
		if f != nil {
			f.Look(b.log)
		}
	}
	if b.plane != nil {
		b.plane.Look(b.log)
	}
}
