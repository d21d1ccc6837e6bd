package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// CheckFiles returns every mistake in the files that c names: certificates that
// do not load, keys that do not fit.
func (c Config) CheckFiles() []*Mistake {
	var all []*Mistake
	wrong := func(field, value, want string) { all = append(all, &Mistake{Field: field, Value: value, Want: want}) }
	for i, l := range c.Listen {
		field := fmt.Sprintf("listen[%d]", i)
		checkCertificate(wrong, field, l.Cert, l.Key)
		for j, k := range l.More {
			checkCertificate(wrong, fmt.Sprintf("%s.certs[%d]", field, j), k.Cert, k.Key)
		}
		checkAuthorities(wrong, field+".client_ca", l.ClientCA)
	}
	upstreams := func(list string, all []Upstream) {
		for i, u := range all {
			field := fmt.Sprintf("%s[%d]", list, i)
			checkCertificate(wrong, field, u.Cert, u.Key)
			checkAuthorities(wrong, field+".ca", u.CA)
		}
	}
	upstreams("upstreams", c.Upstreams)
	for i, g := range c.Groups {
		upstreams(fmt.Sprintf("groups[%d].upstreams", i), g.Upstreams)
	}
	for i, e := range c.Egress {
		field := fmt.Sprintf("egress[%d]", i)
		checkCertificate(wrong, field, e.Cert, e.Key)
		checkAuthorities(wrong, field+".ca", e.CA)
	}
	return all
}

func checkCertificate(wrong func(field, value, want string), field, cert, key string) {
	if cert == "" || key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		wrong(field+".cert", quote(cert)+" with key "+quote(key)+": "+err.Error(), "a PEM certificate and its PEM key")
	}
}

func checkAuthorities(wrong func(field, value, want string), field, file string) {
	if file == "" {
		return
	}
	if _, err := authorities(file); err != nil {
		wrong(field, quote(file)+": "+err.Error(), "a PEM file with certificates")
	}
}

// authorities reads the certificates in a PEM file.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("it holds no certificate")
	}
	return pool, nil
}

// server returns the TLS configuration of a listener, nil without TLS.
func (l Listener) server() (*tls.Config, error) {
	if l.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		return nil, fmt.Errorf("proxy: listener %s: %w", l.Address, err)
	}
	all := []tls.Certificate{cert} // of several that fit, or none that does, the first is shown
	for _, k := range l.More {
		more, err := tls.LoadX509KeyPair(k.Cert, k.Key)
		if err != nil {
			return nil, fmt.Errorf("proxy: listener %s: %w", l.Address, err)
		}
		all = append(all, more)
	}
	c := &tls.Config{Certificates: all, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if l.ClientCA != "" {
		if c.ClientCAs, err = authorities(l.ClientCA); err != nil {
			return nil, fmt.Errorf("proxy: listener %s: client_ca %s: %w", l.Address, l.ClientCA, err)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// client returns the TLS configuration towards an upstream.
func (u Upstream) client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: u.Insecure} // Insecure is set by name only
	var err error
	if u.CA != "" {
		if c.RootCAs, err = authorities(u.CA); err != nil {
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
