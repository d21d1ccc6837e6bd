package reread

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
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

// Expiry is what the log says of a configuration's certificates: of several, the one that
// expires first.
func Expiry(c *tls.Config) []any {
	if c == nil {
		return nil
	}
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
