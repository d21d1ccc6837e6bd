package phpfpm

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// location is what a URL says.
type location struct {
	network, address string // of the page
	page             string
	// port or socket is where the pool listens.
	port   int
	socket string
}

const form = "expected php-fpm://127.0.0.1:9001/status?listen=127.0.0.1:9000, or php-fpm:///run/php/status.sock?page=/status&listen=/run/php/pool.sock"

// parse reads the URL of a pool: where its page is, and where it listens, if that is elsewhere.
func parse(text string) (l location, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "php-fpm" {
		return l, errors.New("php-fpm: the URL cannot be read: " + form)
	}
	q := u.Query()
	for name := range q {
		if name != "listen" && name != "page" || name == "page" && u.Host != "" {
			return l, fmt.Errorf("php-fpm: the URL has a parameter %q: %s", name, form)
		}
	}
	l.network, l.address, l.page = "tcp", u.Host, u.Path
	if u.Host == "" {
		l.network, l.address, l.page = "unix", u.Path, q.Get("page")
	}
	if l.page == "" || l.page == "/" {
		l.page = "/status"
	}
	if l.address == "" || !strings.HasPrefix(l.page, "/") {
		return l, errors.New("php-fpm: the URL names no address: " + form)
	}
	listen := q.Get("listen")
	if listen == "" {
		listen = l.address
	}
	if strings.HasPrefix(listen, "/") {
		l.socket = listen
		return l, nil
	}
	_, port, err := net.SplitHostPort(listen)
	n, errPort := strconv.ParseUint(port, 10, 16)
	if err != nil || errPort != nil || n == 0 {
		return l, fmt.Errorf("php-fpm: the pool listens at %q: %s", listen, form)
	}
	l.port = int(n)
	return l, nil
}

// Check reports what is wrong with a URL.
func Check(text string) error { _, err := parse(text); return err }

// Setup returns what an administrator does once.
func Setup(string) string {
	return `; What spillgate guard needs of PHP-FPM, PHP 8.0 or later. In the configuration of the pool:
pm.status_path = /status
pm.status_listen = 127.0.0.1:9001   ; an address of its own, which answers while all workers are busy
; Then, as root or, to look alone, as any user:
;   spillgate guard --slo 500ms 'php-fpm://127.0.0.1:9001/status?listen=127.0.0.1:9000'
; A pool that listens on a Unix socket: ?listen=/run/php/pool.sock
; A script is ended as request_terminate_timeout ends it: deny what must not end half done, such as
; --deny kind=write, or allow only what may (only: true).
`
}
