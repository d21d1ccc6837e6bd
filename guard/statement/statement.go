// Package statement decides which SQL statements do the same work and of which class
// it is, without keeping their literals.
//
//	SELECT * FROM t WHERE id IN (1, 2) -- from page 7     ┐ fingerprint 0x5c…
//	select * from T where id in (5)                       ┘ select * from t where id in (?)
//
// Of gives a Statement: the text in small letters without comments and spaces,
// with ? for every literal and for lists of them, its hash, and its class by
// the first words.
//
// Invariants: any text gives a Statement, also one that was cut off in the
// middle of a literal; no literal is left in it, because text that is not understood
// counts as a literal. Texts that differ in literals, comments, spaces and the
// number of listed values have one fingerprint.
//
// What this package does not do: it does not parse SQL. A function of a name may
// do anything, so a SELECT may write; a class is a hint and no proof.
package statement

import (
	"bytes"
	"hash/fnv"
	"strings"
)

// MaxText is how many bytes of a text are looked at; the rest is ignored.
const MaxText = 4096

// Dialect says how a server quotes.
type Dialect uint8

// The dialects.
const (
	Postgres Dialect = iota // "x" is a name, $$x$$ a literal
	MySQL                   // "x" is a literal, `x` a name, # begins a comment
)

// Statement is what is kept of a text.
type Statement struct {
	// Fingerprint is never 0 for a text that has a word.
	Fingerprint uint64
	// Text is the normalised text.
	Text string
	// Class is the sort of work.
	Class Class
}

// Of returns the statement of a text.
func Of(text string, d Dialect) Statement {
	if len(text) > MaxText {
		text = strings.ToValidUTF8(text[:MaxText], "")
	}
	s := scanner{text: text, dialect: d}
	s.scan()
	if len(s.out) == 0 {
		return Statement{}
	}
	h := fnv.New64a()
	_, _ = h.Write(s.out)
	normal := string(s.out)
	return Statement{Fingerprint: max(h.Sum64(), 1), Text: normal, Class: classOf(normal)}
}

// scanner writes the normalised form of a text.
type scanner struct {
	text    string
	at      int
	dialect Dialect
	inside  bool // of what MySQL executes although it is written as a comment
	out     []byte
}

// Bytes that a character may be.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c >= 0x80
}

func (s *scanner) peek(i int) byte {
	if s.at+i < len(s.text) {
		return s.text[s.at+i]
	}
	return 0
}

func (s *scanner) scan() {
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case isSpace(c), c == 0, c == ';' && strings.TrimSpace(s.text[s.at+1:]) == "":
			s.at++
		case c == '-' && s.peek(1) == '-', c == '#' && s.dialect == MySQL:
			s.until("\n", 2)
		case c == '/' && s.peek(1) == '*':
			s.comment()
		case c == '*' && s.peek(1) == '/' && s.inside:
			s.inside = false
			s.at += 2
		case c == '\'', c == '"' && s.dialect == MySQL:
			s.quoted(c, s.dialect == MySQL)
			s.literal()
		case c == '"', c == '`':
			from := s.at
			s.quoted(c, false)
			s.put(strings.ToLower(s.text[from:s.at]))
		case c == '$' && s.dialect == Postgres && !isDigit(s.peek(1)):
			s.dollar()
		case c == '$', isDigit(c), c == '.' && isDigit(s.peek(1)):
			s.number()
		case isWord(c):
			s.word()
		default:
			s.operator(c)
			s.at++
		}
	}
}

// operator writes one character, next to the one before if both are of one operator.
func (s *scanner) operator(c byte) {
	const parts = "<>=!|&:@#~"
	if s.at > 0 && len(s.out) > 0 && strings.IndexByte(parts, c) >= 0 && strings.IndexByte(parts, s.text[s.at-1]) >= 0 && s.out[len(s.out)-1] == s.text[s.at-1] {
		s.out = append(s.out, c)
		return
	}
	s.put(string(c))
}

// until skips to behind the next end, from skip bytes ahead.
func (s *scanner) until(end string, skip int) {
	s.at = min(s.at+skip, len(s.text))
	if i := strings.Index(s.text[s.at:], end); i >= 0 {
		s.at += i + len(end)
	} else {
		s.at = len(s.text)
	}
}

// comment skips a comment; PostgreSQL's nest. What MySQL has between /*! or /*M! and the end of the comment is none: a server of the
// version behind that, or later, executes it, as it does ALTER TABLE in what dumps write.
func (s *scanner) comment() {
	if s.dialect == MySQL {
		code, executed := strings.CutPrefix(strings.TrimPrefix(s.text[s.at+2:], "M"), "!")
		if !executed {
			s.until("*/", 2)
			return
		}
		s.inside = true
		s.at = len(s.text) - len(strings.TrimLeft(code, "0123456789"))
		return
	}
	for depth := 0; s.at < len(s.text); {
		switch {
		case strings.HasPrefix(s.text[s.at:], "/*"):
			depth++
			s.at += 2
		case strings.HasPrefix(s.text[s.at:], "*/"):
			depth--
			s.at += 2
		default:
			s.at++
		}
		if depth == 0 {
			return
		}
	}
}

// quoted skips what is in quotes, the doubled quote included, and the escaped one
// where a backslash escapes.
func (s *scanner) quoted(quote byte, escapes bool) {
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\' && escapes:
			s.at++
		case c == quote && s.peek(1) == quote:
			s.at++
		case c == quote:
			s.at++
			return
		}
	}
	s.at = len(s.text)
}

// dollar skips $tag$…$tag$.
func (s *scanner) dollar() {
	end := s.at + 1
	for end < len(s.text) && isWord(s.text[end]) {
		end++
	}
	if end < len(s.text) && s.text[end] == '$' {
		tag := s.text[s.at : end+1]
		s.until(tag, len(tag))
	} else {
		s.at = end
	}
	s.literal()
}

// number skips digits and what may follow them in a number.
func (s *scanner) number() {
	for s.at++; s.at < len(s.text); s.at++ {
		c, before := s.text[s.at], s.text[s.at-1]
		sign := (c == '+' || c == '-') && (before == 'e' || before == 'E')
		if !isWord(c) && c != '.' && !sign {
			break
		}
	}
	s.literal()
}

// word writes a word in small letters. One letter before a quote belongs to the
// literal: e'\n', x'ff', b'1', n'a'.
func (s *scanner) word() {
	from := s.at
	for s.at < len(s.text) && (isWord(s.text[s.at]) || s.text[s.at] == '$') {
		s.at++
	}
	if s.at == from+1 && s.peek(0) == '\'' && strings.IndexByte("eExXbBnN", s.text[from]) >= 0 {
		s.quoted('\'', s.dialect == MySQL || s.text[from]|0x20 == 'e')
		s.literal()
		return
	}
	s.put(strings.ToLower(s.text[from:s.at]))
}

// literal writes ?, once for a list, and takes back the sign of a number.
func (s *scanner) literal() {
	if rest, ok := cutSign(s.out); ok {
		s.out = rest
	}
	if bytes.HasSuffix(s.out, []byte("? ,")) {
		s.out = s.out[:len(s.out)-2]
		return
	}
	s.put("?")
}

// cutSign takes a sign off the end of text, if what stands before it can only be
// followed by a value: the sign is no subtraction.
func cutSign(text []byte) ([]byte, bool) {
	n := len(text)
	if n < 2 || text[n-2] != ' ' || text[n-1] != '-' && text[n-1] != '+' {
		return nil, false
	}
	rest := text[:n-2]
	for _, end := range [...]string{"(", ",", "=", "<", ">", "select", "values", "between", "and", "or", "limit", "offset", "in"} {
		if bytes.HasSuffix(rest, []byte(end)) {
			return rest, true
		}
	}
	return nil, false
}

// put writes a word, with a space between it and the one before. Lists of rows
// shrink to their first one.
func (s *scanner) put(word string) {
	if len(s.out) > 0 {
		s.out = append(s.out, ' ')
	}
	s.out = append(s.out, word...)
	if word == ")" {
		if rest, ok := bytes.CutSuffix(s.out, []byte(" , ( ? )")); ok && bytes.HasSuffix(rest, []byte("( ? )")) {
			s.out = rest
		}
	}
}
