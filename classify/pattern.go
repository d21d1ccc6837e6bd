package classify

import (
	"strings"

	"github.com/spillgate/spillgate/internal/urlpath"
)

// checkPath returns what is expected of a pattern of paths, empty if it is one.
func checkPath(p string) (want string) {
	if len(p) > maxText {
		return "a path of at most 256 bytes"
	}
	if want := urlpath.Want(p); want != "" {
		return want
	}
	for segment := range strings.SplitSeq(p, "/") {
		if segment != "*" && strings.Contains(segment, "*") {
			return "* for a whole segment only, as in /users/*/cart"
		}
	}
	return ""
}

// path is a pattern of canonical paths.
type path struct {
	text string
	tree bool // covers all below it
	star bool // has a segment that is any
}

func newPath(p string) path {
	return path{text: p, tree: strings.HasSuffix(p, "/"), star: strings.Contains(p, "*")}
}

func (p *path) match(s string) bool {
	switch {
	case p.star:
		return p.walk(s)
	case p.tree:
		return strings.HasPrefix(s, p.text)
	}
	return s == p.text
}

// walk compares segment by segment.
func (p *path) walk(s string) bool {
	pattern := p.text
	for {
		if pattern == "" {
			return s == "" || p.tree
		}
		if s == "" {
			return false
		}
		if pattern[0] != '*' {
			if pattern[0] != s[0] {
				return false
			}
			pattern, s = pattern[1:], s[1:]
			continue
		}
		end := strings.IndexByte(s, '/')
		if end < 0 {
			end = len(s)
		}
		if end == 0 {
			return false // an empty segment is none
		}
		pattern, s = pattern[1:], s[end:]
	}
}

// checkHost returns what is expected of a pattern of hosts, empty if it is one.
func checkHost(h string) (want string) {
	const good = "a host without a port, or *. and a domain, for example shop.example.com or *.example.com"
	rest := strings.TrimPrefix(h, "*.")
	if rest == "" || len(h) > maxText || strings.ContainsAny(rest, "*/ ") || rest != hostname(rest) || strings.HasPrefix(rest, ".") {
		return good
	}
	return ""
}

// host is a pattern of hosts.
type host struct {
	name string // without the star
	tree bool   // covers those below, whose names end in name
}

func newHost(h string) host {
	if rest, tree := strings.CutPrefix(h, "*"); tree {
		return host{rest, true}
	}
	return host{h, false}
}

func (h *host) match(s string) bool {
	if h.tree {
		return len(s) > len(h.name) && strings.EqualFold(s[len(s)-len(h.name):], h.name)
	}
	return strings.EqualFold(s, h.name)
}

// hostname returns a Host header without port, brackets and final dot.
func hostname(s string) string {
	if strings.HasPrefix(s, "[") {
		s, _, _ = strings.Cut(s[1:], "]")
		return s
	}
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.IndexByte(s, ':') == i {
		s = s[:i]
	}
	return strings.TrimSuffix(s, ".")
}
