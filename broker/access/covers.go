package access

import "strings"

// covers reports whether every topic of filter is one of pattern. A pattern that
// begins with a wildcard covers nothing that begins with "$", as in subscriptions.
func covers(pattern, filter string) bool {
	if strings.HasPrefix(filter, "$") && (strings.HasPrefix(pattern, "+") || strings.HasPrefix(pattern, "#")) {
		return false
	}
	if pattern == "+/#" { // the same topics
		pattern = "#"
	}
	for {
		p, pRest, pMore := strings.Cut(pattern, "/")
		if p == "#" {
			return true
		}
		f, fRest, fMore := strings.Cut(filter, "/")
		if f == "#" || p != "+" && p != f {
			return false
		}
		switch {
		case !pMore && !fMore:
			return true
		case !fMore:
			return pRest == "#" // "a/#" covers "a"
		case !pMore:
			return false
		}
		pattern, filter = pRest, fRest
	}
}
