package urlpath

import (
	"slices"
	"strings"
)

// Others returns the paths that some server takes a URL's for beside Canonical(path), each once; none for nearly all URLs.
// The path is decoded and raw is not, as in url.URL.Path and RawPath, or empty.
// They leave out a part of what Canonical does: a slash that is encoded stays in its segment (as "%2F"), a backslash is a
// character, the text after a semicolon is a part of the name, empty segments and dots are segments like any other. So
// "/bulk/..%2fcheckout" is "/checkout" to one server and below "/bulk" to another. There are 31 at most.
func Others(path, raw string) []string {
	kept := keepSlashes(raw)
	if kept == "" && plain(path) {
		return nil
	}
	all := []string{Canonical(path)}
	for _, text := range [...]string{path, kept} {
		if text == "" || text[0] != '/' && text[0] != '\\' {
			continue // as Canonical
		}
		unlike := unlikes(text)
		for does := unlike; ; does = (does - 1) & unlike { // every part of it
			if p := read(text, does|^unlike); !slices.Contains(all, p) {
				all = append(all, p)
			}
			if does == 0 {
				break
			}
		}
	}
	return all[1:]
}

// keepSlashes decodes a path but for its encoded slashes, and returns nothing if there are none.
func keepSlashes(raw string) string {
	if !strings.Contains(raw, slash) && !strings.Contains(raw, "%2f") {
		return ""
	}
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' && i+2 < len(raw) {
			if c = hex(raw[i+1])<<4 | hex(raw[i+2]); c == '/' {
				b = append(b, slash[:2]...)
				c = slash[2]
			}
			i += 2
		}
		b = append(b, c)
	}
	return string(b)
}

// slash is one that is encoded.
const slash = "%2F"

// hex returns the value of a digit.
func hex(c byte) byte {
	if c >= 'A' { // of either case
		return c&7 + 9
	}
	return c & 15
}

// reading is what a server does with a path before it looks who is to answer it.
type reading uint8

const (
	turnsBackslashes reading = 1 << iota
	cutsParameters
	dropsEmpty
	resolvesDots
)

// unlikes returns in what servers differ about p.
func unlikes(p string) (r reading) {
	if strings.Contains(p, `\`) {
		r |= turnsBackslashes
	}
	if strings.Contains(p, ";") {
		r |= cutsParameters
	}
	for segment := range strings.FieldsFuncSeq(p, func(c rune) bool { return c == '/' || c == '\\' }) {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			r |= resolvesDots
		} else if name == "" {
			r |= dropsEmpty
		}
	}
	if strings.Contains(strings.ReplaceAll(p, `\`, "/"), "//") {
		r |= dropsEmpty
	}
	return r
}

// read returns p as a server reads it that does so much.
func read(p string, does reading) string {
	if does&turnsBackslashes != 0 {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	var kept []string
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, name := range segments {
		if does&cutsParameters != 0 {
			name, _, _ = strings.Cut(name, ";")
		}
		last := i == len(segments)-1
		switch {
		case name == "" && !last && does&dropsEmpty != 0:
		case name == "" && last && len(kept) > 0 && kept[len(kept)-1] == "" && does&dropsEmpty != 0:
		case name == "." && does&resolvesDots != 0:
			if last {
				kept = append(kept, "")
			}
		case name == ".." && does&resolvesDots != 0:
			kept = kept[:max(len(kept)-1, 0)]
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, name)
		}
	}
	return "/" + strings.Join(kept, "/")
}
