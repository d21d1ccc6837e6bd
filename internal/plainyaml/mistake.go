package plainyaml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing wrong with a file.
type Mistake struct {
	// File is the name that was given for the file, Line and Column count from
	// 1; 0 if the mistake has no place in the text, or none in the line.
	File         string
	Line, Column int
	// Field names the place as a path: upstreams[1].url. Empty for the syntax.
	Field string
	// Value is what was found; empty if something is missing. Want is what was
	// expected.
	Value, Want string
}

// Error says where, what was found and what was expected.
func (m *Mistake) Error() string {
	var b strings.Builder
	b.WriteString(m.File)
	if m.Line > 0 {
		fmt.Fprintf(&b, ":%d", m.Line)
	}
	if m.Column > 0 {
		fmt.Fprintf(&b, ":%d", m.Column)
	}
	b.WriteString(": ")
	if m.Field != "" {
		b.WriteString(m.Field + ": ")
	}
	if m.Value == "" {
		b.WriteString("missing")
	} else {
		b.WriteString(m.Value)
	}
	b.WriteString(", expected " + m.Want)
	return b.String()
}

// Err returns all mistakes as one error that joins them, nil if there are none:
// those of the decoder's own file first.
func (d *Decoder) Err() error {
	slices.SortStableFunc(d.mistakes, func(a, b *Mistake) int {
		return cmp.Or(d.rank(a)-d.rank(b), strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	errs := make([]error, len(d.mistakes))
	for i, m := range d.mistakes {
		errs[i] = m
	}
	return errors.Join(errs...)
}

// rank is 0 for mistakes of the decoder's own file, and 1 for others.
func (d *Decoder) rank(m *Mistake) int {
	if m.File == d.file {
		return 0
	}
	return 1
}

// Len returns the number of mistakes so far, at most MaxMistakes.
func (d *Decoder) Len() int { return len(d.mistakes) }

// Wrong notes a mistake in the value of n.
func (d *Decoder) Wrong(n Node, value, want string) {
	d.bad[n.path] = true
	d.add(n.at, n.path, value, want)
}

// Found notes a mistake that a check of what was decoded has found in a field, at
// the place of the field or else of what contains it. It does nothing if one of
// them is known to be wrong: one mistake should not make two lines.
func (d *Decoder) Found(field, value, want string) {
	if at, fresh := d.locate(field); fresh {
		d.add(at, field, value, want)
	}
}

// Whole notes a mistake of the file that has no place in it.
func (d *Decoder) Whole(value, want string) { d.add(place{}, "", value, want) }

// Other notes a mistake in a line, from 1, of another file that the value of n
// names; 0 if it has no place there.
func (d *Decoder) Other(n Node, file string, line int, value, want string) {
	d.bad[n.path] = true
	if len(d.mistakes) < MaxMistakes {
		d.mistakes = append(d.mistakes, &Mistake{File: file, Line: line, Value: value, Want: want})
	}
}

func (d *Decoder) add(at place, path, value, want string) {
	if len(d.mistakes) < MaxMistakes {
		d.mistakes = append(d.mistakes, &Mistake{d.file, at.line, at.column, path, value, want})
	}
}
