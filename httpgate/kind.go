package httpgate

import (
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/urlpath"
)

// maxSegments is how many segments of a path tell kinds apart, maxSegment the
// longest of them, in bytes. The rest is one "*" each.
const maxSegments, maxSegment = 6, 40

// Kind returns what a request asks for: its method and path, without what looks like
// the name of one thing among many; of gRPC, the method. It allocates. A gate with
// class shares, or one that looks for culprits, tells its requests apart by it.
func Kind(r *http.Request) string { return kindOf(r.Method, r.URL.Path, isGRPC(r.Header)) }

func kindOf(method, path string, grpc bool) string {
	if grpc {
		return path[:min(len(path), share.MaxKeyBytes/2)]
	}
	var b strings.Builder
	b.WriteString(method[:min(len(method), 16)])
	b.WriteByte(' ')
	n := 0
	for segment := range strings.SplitSeq(strings.TrimPrefix(urlpath.Canonical(path), "/"), "/") {
		if n++; n > maxSegments {
			b.WriteString("/*")
			break
		}
		b.WriteByte('/')
		if oneOfMany(segment) {
			b.WriteByte('*')
		} else {
			b.WriteString(segment)
		}
	}
	return b.String()
}

// oneOfMany reports whether a segment of a path names a thing, not a kind of
// thing: a number, an identifier, something long or unprintable.
func oneOfMany(segment string) bool {
	digits, letters := 0, 0
	for i := range len(segment) {
		switch c := segment[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c <= ' ' || c > '~':
			return true
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
		}
	}
	return len(segment) > maxSegment || digits > 0 && letters == 0 || digits >= 3
}
