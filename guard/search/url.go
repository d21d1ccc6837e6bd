package search

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// target is what a URL says.
type target struct {
	base           string // http://host:port
	user, password string
	tls            *tls.Config // nil without
	elastic        bool
}

// Check reports what is wrong with a URL, without its password.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// parse reads opensearch://user:password@host:port?tls=…, or elasticsearch://….
func parse(text string) (*target, error) {
	wrong := errors.New("search: the URL cannot be read (its text is not shown, it may hold a password): expected opensearch://user@host:port, or elasticsearch://user@host:port")
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "opensearch" && u.Scheme != "elasticsearch" || u.Path != "" && u.Path != "/" {
		return nil, wrong
	}
	port := u.Port()
	if port == "" {
		port = "9200"
	}
	t := &target{user: u.User.Username(), elastic: u.Scheme == "elasticsearch"}
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
			err = fmt.Errorf("search: the URL has the parameter %q, expected none but tls and ca", name)
		}
		if err != nil {
			return nil, err
		}
	}
	scheme := "http"
	if t.tls != nil {
		scheme = "https"
	}
	t.base = scheme + "://" + net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

func (t *target) config() *tls.Config {
	if t.tls == nil {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return t.tls
}

// secure turns TLS on.
func (t *target) secure(how string) error {
	switch how {
	case "true":
		t.config()
	case "skip-verify":
		t.config().InsecureSkipVerify = true
	default:
		return fmt.Errorf("search: tls=%s, expected true or skip-verify", how)
	}
	return nil
}

// trust turns TLS on and accepts certificates of the authorities in a file alone.
func (t *target) trust(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("search: ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("search: ca=%s holds no certificate, expected PEM", file)
	}
	t.config().RootCAs = pool
	return nil
}
