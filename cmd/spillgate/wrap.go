package main

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// writeWrapped writes text to w. On a terminal, lines that are too long for it are broken between words, and what follows
// is indented by so many columns.
func writeWrapped(w io.Writer, text string, indent int) error {
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			text = wrapLines(text, columns, indent)
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// wrapLines returns text with lines of at most columns, if words are as short as that.
func wrapLines(text string, columns, indent int) string {
	if columns <= 2*indent {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		at := 0 // columns of the line so far
		for i, word := range strings.Split(line, " ") {
			n := ansi.StringWidth(strings.TrimSuffix(word, "\n"))
			switch {
			case i == 0:
			case at > indent && at+1+n > columns:
				out.WriteString("\n" + strings.Repeat(" ", indent))
				at = indent
			default:
				out.WriteByte(' ')
				at++
			}
			out.WriteString(word)
			at += n
		}
	}
	return out.String()
}
