package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing wrong with a file. Errors of this package join them, in
// the order of the file.
type Mistake struct {
	// File is the name that was given for the file, Line and Column count from
	// 1; 0 if the mistake has no place in the text.
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
		fmt.Fprintf(&b, ":%d:%d", m.Line, m.Column)
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

// join makes one error of mistakes, nil of none.
func join(mistakes []*Mistake) error {
	slices.SortStableFunc(mistakes, func(a, b *Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, len(mistakes))
	for i, m := range mistakes {
		errs[i] = m
	}
	return errors.Join(errs...)
}
