package rest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Target is what a URL says.
type Target struct {
	// Scheme is one of those that Parse was told.
	Scheme string
	// Path is that of the URL without a slash at its end.
	Path string

	base           string // http://host:port
	user, password string
	tls            *tls.Config // nil without
}

// Parse reads scheme://user:password@host:port/path?tls=…&ca=…. Its errors begin with the package of the adapter, and do
// not show a password. expected says how a URL looks.
func Parse(adapter, text, defaultPort, expected string, schemes ...string) (*Target, error) {
	wrong := fmt.Errorf("%s: the URL cannot be read (its text is not shown, it may hold a password): expected %s", adapter, expected)
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme) {
		return nil, wrong
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	t := &Target{Scheme: u.Scheme, Path: strings.TrimSuffix(u.EscapedPath(), "/"), user: u.User.Username()}
	t.password, _ = u.User.Password()
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, wrong
	}
	for name, values := range query {
		switch name {
		case "tls":
			err = t.secure(values[0])
		case "ca":
			err = t.trust(values[0])
		default:
			err = fmt.Errorf("the URL has the parameter %q, expected none but tls and ca", name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", adapter, err)
		}
	}
	scheme := "http"
	if t.tls != nil {
		scheme = "https"
	}
	t.base = scheme + "://" + net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

func (t *Target) config() *tls.Config {
	if t.tls == nil {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return t.tls
}

// secure turns TLS on.
func (t *Target) secure(how string) error {
	switch how {
	case "true":
		t.config()
	case "skip-verify":
		t.config().InsecureSkipVerify = true
	default:
		return fmt.Errorf("tls=%s, expected true or skip-verify", how)
	}
	return nil
}

// trust turns TLS on and accepts certificates of the authorities in a file alone.
func (t *Target) trust(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("ca: %w, expected a file with certificates in PEM", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("ca=%s holds no certificate, expected PEM", file)
	}
	t.config().RootCAs = pool
	return nil
}
