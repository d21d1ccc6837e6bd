package search

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
)

// Limits of a description.
const (
	// longestText is in bytes; the rest of a description is ignored.
	longestText = 1 << 20
	// longestNumber is that of a 64-bit integer, in digits.
	longestNumber = 19
	// deepest is how many brackets deep a query is looked into; servers allow 20 to 30.
	deepest = 64
	// longestShape bounds, in bytes, what is kept of a shape.
	longestShape = 2 << 10
)

// statementOf tells which tasks do the same work: by their action, the indices, and the shape of
// the query, whose literals are left out.
//
//	indices[logs-2026.11.25], search_type[…], source[{"query":{"terms":{"n":[1,2,3]}}}]
//	indices:data/read/search indices [ logs-?.?.? ] search_type [ … ] source [ { query: { terms: { n: [ ? ] } } } ]
func statementOf(action, description string, class statement.Class) statement.Statement {
	text := description[:min(len(description), longestText)]
	if !strings.Contains(text, "source[") || class != statement.Select {
		text = headOf(text) // what is in the brackets behind may be a document's name
	}
	s := shaper{text: text}
	shape := action + " " + s.list(0, 0)
	h := fnv.New64a()
	_, _ = h.Write([]byte(shape))
	return statement.Statement{Fingerprint: max(h.Sum64(), 1), Text: strings.ToValidUTF8(shape[:min(len(shape), longestShape)], ""), Class: class}
}

// headOf returns how many requests a description is about and the first indices that it names.
func headOf(text string) string {
	var out []string
	if rest, ok := strings.CutPrefix(text, "requests["); ok {
		n, after, _ := strings.Cut(rest, "]")
		out = append(out, magnitude(len(n)))
		text = after
	}
	if _, rest, ok := strings.Cut(text, "["); ok {
		names, _, _ := strings.Cut(strings.TrimLeft(rest, "["), "]")
		out = append(out, "["+names+"]")
	}
	return strings.Join(out, " ")
}

// sizeOf returns how many digits the number of requests has that a description is about, 0 if it is about one.
func sizeOf(description string) int {
	rest, ok := strings.CutPrefix(description, "requests[")
	if !ok {
		return 0
	}
	n, _, _ := strings.Cut(rest[:min(len(rest), longestNumber)], "]")
	if n == "1" {
		return 0
	}
	return len(n)
}

// indicesOf returns the indices that a description names first.
func indicesOf(description string) string {
	_, rest, ok := strings.Cut(description[:min(len(description), longestShape)], "indices[")
	if !ok {
		if _, rest, ok = strings.Cut(description[:min(len(description), longestShape)], "["); !ok {
			return ""
		}
	}
	names, _, _ := strings.Cut(strings.TrimLeft(rest, "["), "]")
	return names
}

// magnitude tells lists apart that differ by more than ten times, from 100 entries on: what takes
// a hundred times as long is not the same work.
func magnitude(digits int) string {
	if digits < 3 {
		return ""
	}
	return "x" + strings.Repeat("0", digits-1)
}

// shaper reads a description, which is partly JSON. Any text has a shape.
type shaper struct {
	text string
	at   int
}

// list reads what is separated by commas up to the closing bracket, 0 for the end, and returns
// the different shapes in it in order.
func (s *shaper) list(closing byte, depth int) string {
	var shapes []string
	n := 0
	for s.at < len(s.text) {
		shape, more := s.entry(closing, depth)
		n++
		if i, known := slices.BinarySearch(shapes, shape); !known && len(shapes) < 64 {
			shapes = slices.Insert(shapes, i, shape)
		}
		if !more {
			break
		}
	}
	digits := 0
	for k := n; k > 0; k /= 10 {
		digits++
	}
	return strings.TrimSpace(strings.Join(shapes, ", ") + " " + magnitude(digits))
}

// entry reads up to a comma, and reports false at the closing bracket.
func (s *shaper) entry(closing byte, depth int) (shape string, more bool) {
	var words []string
	add := func(w string) {
		if len(words) < 256 {
			words = append(words, w)
		}
	}
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == closing && closing != 0:
			s.at++
			return strings.Join(words, " "), false
		case c == ',':
			s.at++
			return strings.Join(words, " "), true
		case c == '{', c == '[':
			s.at++
			end := c + 2 // of both kinds in ASCII
			if depth == deepest {
				s.at = len(s.text)
				break
			}
			add(string(c) + " " + s.list(end, depth+1) + " " + string(end))
		case c == '"':
			add(s.quoted())
		case c <= ' ', c == ']', c == '}', c == ':':
			s.at++
		default:
			add(s.word())
		}
	}
	return strings.Join(words, " "), false
}

// quoted reads a string: a key is kept, a value is a literal.
func (s *shaper) quoted() string {
	from := s.at + 1
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at = min(s.at, len(s.text))
	value := s.text[min(from, s.at):s.at]
	s.at = min(s.at+1, len(s.text))
	if strings.HasPrefix(strings.TrimLeft(s.text[s.at:min(s.at+8, len(s.text))], " \n\t\r"), ":") {
		return digitless(value) + ":"
	}
	return "?"
}

// word reads what is not quoted.
func (s *shaper) word() string {
	from := s.at
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n,:{}[]\"", s.text[s.at]) < 0 {
		s.at++
	}
	w := s.text[from:s.at]
	if w == "true" || w == "false" || w == "null" || w[0] == '-' || w[0] >= '0' && w[0] <= '9' {
		return "?"
	}
	return digitless(w)
}

// digitless replaces numbers in a name: those of days and of partitions come and go.
func digitless(name string) string {
	if !strings.ContainsAny(name, "0123456789") {
		return name
	}
	var out strings.Builder
	in := false
	for i := range len(name) {
		digit := name[i] >= '0' && name[i] <= '9'
		switch {
		case !digit:
			out.WriteByte(name[i])
		case !in:
			out.WriteByte('?')
		}
		in = digit
	}
	return out.String()
}
