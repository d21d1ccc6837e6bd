package classify

import (
	"net/http"

	"github.com/spillgate/spillgate/internal/urlpath"
)

// Route is a part of all requests, by host and path. It never changes, so its methods may
// be called at once from any goroutine.
type Route struct{ where rule }

// NewRoute returns the route of requests to one of these hosts at one of these paths, in
// the patterns of Match. No hosts are all of them, and so are no paths.
func NewRoute(hosts, paths []string) *Route {
	r := &Route{}
	for _, h := range hosts {
		r.where.hosts = append(r.where.hosts, newHost(h))
	}
	for _, p := range paths {
		r.where.paths = append(r.where.paths, newPath(p))
	}
	return r
}

// CheckRoute reports every mistake in the patterns of a route that stands in field.
func CheckRoute(wrong func(field, value, want string), field string, hosts, paths []string) {
	(&Match{Host: hosts, Path: paths}).check(wrong, field)
}

// Match reports whether r takes this route. Its path is compared as rules compare it.
func (t *Route) Match(r *http.Request) bool {
	f := Facts{Host: r.Host, Path: urlpath.Canonical(r.URL.Path)}
	return t.where.matchHost(&f) && t.where.matchPath(&f)
}
