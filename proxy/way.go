package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	unixScheme = "unix:"
	// socketHost stands in URLs for a server behind a socket.
	socketHost = "localhost"
	// longestSocket is the longest path of a socket, in bytes: what fits into a sockaddr_un
	// of every system.
	longestSocket = 100
)

// target returns the parsed URL, or what was expected of it. That of a socket has the
// scheme spoken over it.
func (u Upstream) target() (target *url.URL, mistake string) {
	const want = "http://host:port, https://host:port, h2c://host:port, unix:/path or h2c+unix:/path"
	if u.URL == "" {
		return nil, want
	}
	if path, scheme := u.socket(); scheme != "" {
		if mistake := socketMistake(path); mistake != "" {
			return nil, mistake
		}
		return &url.URL{Scheme: scheme, Host: socketHost}, ""
	}
	t, err := url.Parse(u.URL)
	switch {
	case err != nil && strings.Count(u.URL, ":") > 2 && !strings.Contains(u.URL, "["):
		return nil, want + ", with an address of IPv6 in brackets, such as http://[::1]:8080"
	case err != nil || t.Opaque != "":
		return nil, want
	case t.Scheme != "http" && t.Scheme != "https" && t.Scheme != "h2c":
		return nil, want
	case t.Hostname() == "" || strings.ContainsAny(t.Hostname(), " *"):
		return nil, want + ": the host is missing"
	case t.User != nil:
		return nil, want + " without user and password"
	case t.RawQuery != "" || t.ForceQuery || t.Fragment != "":
		return nil, want + " without query and fragment"
	}
	if port := t.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, "a port from 1 to 65535"
		}
	}
	return t, ""
}

// socket returns the path of the socket, and the scheme spoken over it, both empty if the
// URL is no socket's.
func (u Upstream) socket() (path, scheme string) {
	if path, ok := strings.CutPrefix(u.URL, unixScheme); ok {
		return path, "http"
	}
	if path, ok := strings.CutPrefix(u.URL, "h2c+"+unixScheme); ok {
		return path, "h2c"
	}
	return "", ""
}

func socketMistake(path string) string {
	if !filepath.IsAbs(path) || len(path) > longestSocket || strings.ContainsRune(path, 0) {
		return fmt.Sprintf("the absolute path of a socket, of at most %d bytes, for example unix:/run/app.sock", longestSocket)
	}
	return ""
}

func checkSocket(wrong func(field, value, want string), field, path string) {
	if mistake := socketMistake(path); mistake != "" {
		wrong(field, quote(unixScheme+path), mistake)
	}
}

// label is the upstream's name, or the default for it.
func (u Upstream) label() string {
	name := u.Name
	if name == "" {
		if path, _ := u.socket(); path != "" {
			name = path
		} else if t, mistake := u.target(); mistake == "" {
			name = t.Host
		}
	}
	if u.at != "" {
		name += "@" + u.at
	}
	return name
}

// address returns the network and address of the connections to the upstream, with which
// target is reached.
func (u Upstream) address(target *url.URL) (network, address string) {
	path, _ := u.socket()
	switch {
	case path != "":
		return "unix", path
	case u.at != "":
		return "tcp", u.at
	}
	return "tcp", net.JoinHostPort(target.Hostname(), portOf(target))
}

func portOf(target *url.URL) string {
	switch port := target.Port(); {
	case port != "":
		return port
	case target.Scheme == "https":
		return "443"
	}
	return "80"
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns what connects to the upstream within a time.
func (u Upstream) dialer(timeout time.Duration) dialer {
	d := &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}
	path, _ := u.socket()
	if path == "" && u.at == "" {
		return d.DialContext
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, address := u.address(nil)
		return d.DialContext(ctx, network, address)
	}
}

// fixed reports whether no lookup finds the upstream's address: a dialer divides its time among those that one finds, so
// it needs all of it. Those of localhost answer or refuse at once.
func (u Upstream) fixed(target *url.URL) bool {
	if path, _ := u.socket(); path != "" {
		return false
	}
	host := target.Hostname()
	return u.at != "" || host == "localhost" || net.ParseIP(host) != nil
}

// checkResolve finds the mistakes in Resolve, which stands in field.
func (u Upstream) checkResolve(wrong func(field, value, want string), field string, target *url.URL) {
	if u.Resolve == 0 {
		return
	}
	field += ".resolve"
	if u.Resolve < time.Second || u.Resolve > time.Hour {
		wrong(field, u.Resolve.String(), fmt.Sprintf("%v to %v, or 0 for never", time.Second, time.Hour))
	}
	path, _ := u.socket()
	if path != "" {
		wrong(field, u.Resolve.String(), "a url with a name beside it: a socket has no name to look up")
	} else if target != nil {
		if _, err := netip.ParseAddr(target.Hostname()); err == nil {
			wrong(field, u.Resolve.String(), "a url with a name beside it: an address is not looked up")
		}
	}
}

// listenOn opens a listener.
func listenOn(address string) (net.Listener, error) { return Listener{Address: address}.open() }

// open opens the listener. A socket that a process left behind which is there no more is
// replaced.
func (l Listener) open() (net.Listener, error) {
	path, ok := strings.CutPrefix(l.Address, unixScheme)
	if !ok {
		return net.Listen("tcp", l.Address)
	}
	out, err := listenSocket(path)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o600)
	if l.Open {
		mode = 0o666
	}
	if err := os.Chmod(path, mode); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func listenSocket(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if info, statErr := os.Lstat(path); statErr != nil || info.Mode().Type() != fs.ModeSocket {
		return nil, err
	}
	if c, dialErr := net.DialTimeout("unix", path, time.Second); !errors.Is(dialErr, syscall.ECONNREFUSED) {
		if dialErr == nil {
			c.Close()
		}
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return net.Listen("unix", path)
}
