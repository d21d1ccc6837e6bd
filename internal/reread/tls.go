package reread

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Pair names the PEM files of a certificate, with what leads to an authority, and its key.
type Pair struct{ Cert, Key string }

// Server names the PEM files of a TLS server.
type Server struct {
	// Cert and Key are its certificate, with what leads to an authority, and the key.
	Cert, Key string
	// More are shown to clients that ask for a name which they have (SNI).
	More []Pair
	// ClientCA are the authorities that must have signed a client's certificate; empty
	// asks for none.
	ClientCA string
	// Protos are those of ALPN.
	Protos []string
}

// Config reads the files.
func (s Server) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: s.Protos}
	// Of several certificates that fit, or where none does, the first is shown.
	for _, p := range append([]Pair{{s.Cert, s.Key}}, s.More...) {
		cert, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = append(c.Certificates, cert)
	}
	if s.ClientCA != "" {
		pool, err := Authorities(s.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("client_ca %s: %w", s.ClientCA, err)
		}
		c.ClientCAs = pool
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// Newest returns a configuration that is the newest for each connection, and the files
// to look at, called whose in the log.
func (s Server) Newest(whose ...any) (*tls.Config, *File, error) {
	first, err := s.Config()
	if err != nil {
		return nil, nil, err
	}
	var newest atomic.Pointer[tls.Config]
	newest.Store(first)
	files := []string{s.Cert, s.Key, s.ClientCA}
	for _, p := range s.More {
		files = append(files, p.Cert, p.Key)
	}
	f := New("certificates", files, func() ([]any, error) {
		c, err := s.Config()
		if err == nil {
			newest.Store(c)
		}
		return Expiry(c), err
	}, whose...)
	outer := first.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return newest.Load(), nil }
	return outer, f, nil
}

// mostNamed is how many certificates a line of the log names.
const mostNamed = 16

// Expiry is what the log says of a configuration's certificates: of several, those that expire
// first, in that order.
func Expiry(c *tls.Config) []any {
	if c == nil {
		return nil
	}
	var all []*x509.Certificate
	for i := range c.Certificates {
		if leaf := c.Certificates[i].Leaf; leaf != nil {
			all = append(all, leaf)
		}
	}
	slices.SortStableFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	until := func(c *x509.Certificate) string { return c.NotAfter.UTC().Format(time.RFC3339) }
	switch len(all) {
	case 0:
		return nil
	case 1:
		return []any{"subject", all[0].Subject.String(), "expires", until(all[0])}
	}
	var named []string
	for _, c := range all[:min(len(all), mostNamed)] {
		named = append(named, c.Subject.String()+" expires "+until(c))
	}
	out := []any{"certificates", strings.Join(named, ", ")}
	if n := len(all) - len(named); n > 0 {
		out = append(out, "more", n)
	}
	return out
}

// Authorities reads the certificates in a PEM file.
func Authorities(file string) (*x509.CertPool, error) {
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

// CheckPair calls wrong if a certificate and its key cannot be used. Where one is not
// named it says nothing.
func CheckPair(wrong func(field, value, want string), field, cert, key string) {
	if cert == "" || key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		wrong(field, strconv.Quote(cert)+" with key "+strconv.Quote(key)+": "+err.Error(), "a PEM certificate and its PEM key")
	}
}

// CheckAuthorities calls wrong if a file of authorities cannot be used.
func CheckAuthorities(wrong func(field, value, want string), field, file string) {
	if file == "" {
		return
	}
	if _, err := Authorities(file); err != nil {
		wrong(field, strconv.Quote(file)+": "+err.Error(), "a PEM file with certificates")
	}
}
