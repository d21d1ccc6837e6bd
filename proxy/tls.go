package proxy

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spillgate/spillgate/internal/reread"
)

// CheckFiles returns every mistake in the files that c names: certificates that
// do not load, keys that do not fit, logs whose directory is not there.
func (c Config) CheckFiles() []*Mistake {
	var all []*Mistake
	wrong := func(field, value, want string) { all = append(all, &Mistake{Field: field, Value: value, Want: want}) }
	for i, l := range c.Listen {
		field := fmt.Sprintf("listen[%d]", i)
		reread.CheckPair(wrong, field+".cert", l.Cert, l.Key)
		for j, k := range l.More {
			reread.CheckPair(wrong, fmt.Sprintf("%s.certs[%d].cert", field, j), k.Cert, k.Key)
		}
		reread.CheckAuthorities(wrong, field+".client_ca", l.ClientCA)
	}
	upstreams := func(list string, all []Upstream) {
		for i, u := range all {
			field := fmt.Sprintf("%s[%d]", list, i)
			reread.CheckPair(wrong, field+".cert", u.Cert, u.Key)
			reread.CheckAuthorities(wrong, field+".ca", u.CA)
		}
	}
	upstreams("upstreams", c.Upstreams)
	for i, g := range c.Groups {
		upstreams(fmt.Sprintf("groups[%d].upstreams", i), g.Upstreams)
	}
	for i, e := range c.Egress {
		field := fmt.Sprintf("egress[%d]", i)
		reread.CheckPair(wrong, field+".cert", e.Cert, e.Key)
		reread.CheckAuthorities(wrong, field+".ca", e.CA)
	}
	if p := c.Access.Path; p != "stderr" && p != "stdout" {
		checkDirectory(wrong, "access_log.path", p)
	}
	checkDirectory(wrong, "culprit.audit", c.Culprit.Audit)
	return all
}

// checkDirectory finds a mistake in the path of a file that is made when it is written to. Empty is no file.
func checkDirectory(wrong func(field, value, want string), field, path string) {
	if path == "" {
		return
	}
	if d, err := os.Stat(filepath.Dir(path)); err != nil || !d.IsDir() {
		wrong(field, quote(path), "a file in a directory that exists")
	} else if f, err := os.Stat(path); err == nil && f.IsDir() {
		wrong(field, quote(path), "a file, and not a directory")
	}
}

// server names the files of a listener with TLS.
func (l Listener) server() reread.Server {
	return reread.Server{Cert: l.Cert, Key: l.Key, More: l.More, ClientCA: l.ClientCA, Protos: []string{"h2", "http/1.1"}}
}

func (l Listener) failed(err error) error {
	return fmt.Errorf("proxy: listener %s: %w", l.Address, err)
}

// client returns the TLS configuration towards an upstream.
func (u Upstream) client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: u.Insecure} // Insecure is set by name only
	var err error
	if u.CA != "" {
		if c.RootCAs, err = reread.Authorities(u.CA); err != nil {
			return nil, fmt.Errorf("proxy: upstream %s: ca %s: %w", u.label(), u.CA, err)
		}
	}
	if u.Cert != "" {
		cert, err := tls.LoadX509KeyPair(u.Cert, u.Key)
		if err != nil {
			return nil, fmt.Errorf("proxy: upstream %s: %w", u.label(), err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}
