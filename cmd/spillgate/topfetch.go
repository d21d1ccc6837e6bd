package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spillgate/spillgate/proxy"
)

const (
	// topTimeout is how long a source may take to answer; it is shown as failed then.
	topTimeout = 3 * time.Second
	// topMostBytes is the longest document that is read of a source, in bytes; a
	// longer one is refused.
	topMostBytes = 8 << 20
)

// topReader reads one source. Read may be called again when it has returned.
type topReader interface {
	Read(ctx context.Context) topSource
	Close()
}

// openTop returns the reader of a source as it was typed: a URL or host:port of an
// admin address, or a path of a task file.
func openTop(source string, objective time.Duration) (topReader, error) {
	if strings.Contains(source, "://") {
		u, err := url.Parse(source)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("expected an http:// or https:// URL with a host; to see a database, give the --admin address of its guard")
		}
		return &topAdmin{name: u.Host, base: u}, nil
	}
	if _, err := os.Stat(source); err == nil {
		return openTopFile(source, objective)
	}
	if host, port, err := net.SplitHostPort(source); err == nil && port != "" && !strings.Contains(source, "/") {
		if host == "" {
			source = net.JoinHostPort("127.0.0.1", port)
		}
		return &topAdmin{name: source, base: &url.URL{Scheme: "http", Host: source}}, nil
	}
	return nil, fmt.Errorf("%q: neither the host:port of an admin address nor a task file that exists", source)
}

// topAdmin reads an admin address.
type topAdmin struct {
	name string
	base *url.URL
}

func (a *topAdmin) Close() {}

// Read asks for the status, and for the metrics where the status does not tell all.
func (a *topAdmin) Read(ctx context.Context) topSource {
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	s := topSource{Name: a.name}
	text, err := a.get(ctx, proxy.PathStatus)
	var strange error // the page is no status: a service may serve its metrics at every path
	if err == nil {
		var all bool
		if all, strange = s.topStatus(text); all {
			return s
		}
	} else if !errors.Is(err, errNoPage) { // a service may have metrics alone
		return s.failed(err)
	}
	if text, err = a.get(ctx, proxy.PathMetrics); err == nil {
		err = s.topMetrics(text)
	}
	if err != nil && strange != nil {
		err = strange
	}
	return s.failed(err)
}

func (s topSource) failed(err error) topSource {
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

// errNoPage is that a server has no such page.
var errNoPage = errors.New("there is no such page")

func (a *topAdmin) get(ctx context.Context, path string) ([]byte, error) {
	return a.getWith(ctx, path, nil)
}

// getWith is get with a query.
func (a *topAdmin) getWith(ctx context.Context, path string, query url.Values) ([]byte, error) {
	at := a.base.JoinPath(path)
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%w; is this the --admin address of a running proxy, guard or broker?", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("GET %s: %w; expected the admin address of a proxy, guard, broker or service", path, errNoPage)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: %s, expected 200; expected the admin address of a proxy, guard, broker or service", path, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, topMostBytes+1))
	if err == nil && len(text) > topMostBytes {
		err = fmt.Errorf("GET %s: more than %d bytes; expected the admin address of a proxy, guard, broker or service", path, topMostBytes)
	}
	return text, err
}
