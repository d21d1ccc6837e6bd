package main

import "testing"

func TestWrapLines(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"short\n", "short\n"},
		{"  twenty columns and four\n  next\n", "  twenty columns and\n    four\n  next\n"},
		{"  just twenty columns\nand again\n", "  just twenty\n    columns\nand again\n"},
		{"aword-that-is-longer-than-any-line b\n", "aword-that-is-longer-than-any-line\n    b\n"},
		{"no end of the line here", "no end of the line\n    here"},
	} {
		if got := wrapLines(tt.text, 20, 4); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.text, got, tt.want)
		}
	}
	if got := wrapLines("in three columns", 3, 4); got != "in three columns" {
		t.Errorf("too narrow: %q", got)
	}
}
