package urlpath

import (
	"bytes"
	"slices"
	"strings"
)

// longest is the longest path in bytes that is read in several ways. A longer one has more readings than are looked at: each
// takes time, and longer paths that need several are not written in good faith.
const longest = 2 << 10

// Others returns the paths that some server takes a URL's for beside Canonical(path), each once; none for nearly all URLs.
// The path is decoded and raw is not, as in url.URL.Path and RawPath, or empty.
// They leave out a part of what Canonical does: a slash that is encoded stays in its segment (as "%2F"), a backslash is a
// character, the text after a semicolon is a part of the name, empty segments and dots are segments like any other. So
// "/bulk/..%2fcheckout" is "/checkout" to one server and below "/bulk" to another. There are 31 at most.
//
// all is false if servers have further readings: of a path that is longer than 2 KiB, and of one that has backslashes or
// dots, or semicolons beside dots, both as they are and encoded: a server may resolve those before it decodes these. Such a
// path may be any.
func Others(path, raw string) (paths []string, all bool) {
	kept := keepSlashes(raw)
	if kept == "" && plain(path) {
		return nil, true
	}
	if len(path) > longest || mixed(path, raw) {
		return nil, false
	}
	paths = []string{Canonical(path)}
	var b []byte
	for _, text := range [...]string{path, kept} {
		if text == "" || text[0] != '/' && text[0] != '\\' {
			continue // as Canonical
		}
		unlike := unlikes(text)
		for does := unlike; ; does = (does - 1) & unlike { // every part of it
			b = read(b[:0], text, does|^unlike)
			if !slices.ContainsFunc(paths, func(p string) bool { return p == string(b) }) {
				paths = append(paths, string(b))
			}
			if does == 0 {
				break
			}
		}
	}
	return paths[1:], true
}

// mixed reports whether servers that resolve a path before they decode it read it otherwise than those that do so after that,
// and than those that leave it as it is.
func mixed(path, raw string) bool {
	if !strings.Contains(raw, "%") {
		return false
	}
	has := func(s string) bool { return strings.Contains(raw, s) }
	return has(";") && (has("%3B") || has("%3b")) && unlikes(path)&resolvesDots != 0 || has(`\`) && (has("%5C") || has("%5c")) ||
		(has("%2E") || has("%2e")) && unlikes(raw)&resolvesDots != 0
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
	everything = turnsBackslashes | cutsParameters | dropsEmpty | resolvesDots
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

// read appends p to b, which is empty, as a server reads it that does so much.
func read(b []byte, p string, does reading) []byte {
	separates := func(c byte) bool { return c == '/' || c == '\\' && does&turnsBackslashes != 0 }
	begin := 0
	if separates(p[0]) {
		begin = 1
	}
	for end := begin; end <= len(p); end++ {
		last := end == len(p)
		if !last && !separates(p[end]) {
			continue
		}
		name := p[begin:end]
		begin = end + 1
		if does&cutsParameters != 0 {
			name, _, _ = strings.Cut(name, ";")
		}
		up := name == ".."
		switch {
		case name == "" && !last && does&dropsEmpty != 0:
		case (up || name == ".") && does&resolvesDots != 0:
			if up {
				b = b[:max(bytes.LastIndexByte(b, '/'), 0)]
			}
			if last { // a directory
				b = append(b, '/')
			}
		default:
			b = append(append(b, '/'), name...)
		}
	}
	if len(b) == 0 {
		b = append(b, '/')
	}
	return b
}
