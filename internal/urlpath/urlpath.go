// Package urlpath decides which path a request is for.
//
// A path can be written in several ways that mean the same to the server behind:
// "/internal/../bulk", "/internal//../bulk" and "/internal/..;x/bulk" are all "/bulk" to
// one server or another. A client could evade a rule that compares the text, so every
// comparison of paths uses their canonical form:
//
//	/a/./b  /a//b  /a/x/../b  /a/b;v=1  \a\b   →   /a/b
//
// Servers differ: some take a backslash or an encoded slash for a slash, some (servlet containers)
// ignore the text after a semicolon, some resolve no dots. Canonical is the most permissive
// reading and Others are the rest: what a path buys, such as a rank, it has to have by each.
// The caller has decoded the percent-encoding once; a path that is encoded twice is not decoded twice.
//
// What this package does not do: it does not change the request that is sent to a server.
package urlpath

import (
	"fmt"
	"strings"
)

// Canonical returns the path that p, decoded as in url.URL.Path, means. It begins with a
// slash, and has no empty segment but at its end, no segment "." or "..", no backslash and
// no semicolon. What does not begin with a slash, as "*" of OPTIONS, is returned as it is.
// A path that is canonical already is returned without allocating.
func Canonical(p string) string {
	if plain(p) {
		return p
	}
	return string(read(make([]byte, 0, len(p)+1), p, everything))
}

// Want returns what is expected of a path that requests are to be compared with, empty if p
// is one: a pattern that is not canonical would match no request.
func Want(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "a path that begins with a slash"
	}
	if c := Canonical(p); c != p {
		return fmt.Sprintf("a path as servers read it, without empty segments, dots, backslashes and semicolons: %q", c)
	}
	return ""
}

// plain reports whether p is left as it is, as most paths are, in one pass: every request is asked.
func plain(p string) bool {
	if p == "" || p[0] != '/' && p[0] != '\\' {
		return true
	}
	for i := range len(p) {
		switch p[i] {
		case '\\', ';':
			return false
		case '/':
			if i+1 < len(p) && (p[i+1] == '/' || p[i+1] == '.' && dotted(p[i+1:])) {
				return false
			}
		}
	}
	return true
}

// dotted reports whether the first segment of p, which begins with a dot, is "." or "..".
func dotted(p string) bool {
	p = strings.TrimPrefix(p[1:], ".")
	return p == "" || p[0] == '/'
}
