package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Help fits into a terminal of 80 columns, examples too.
func TestHelpFits(t *testing.T) {
	var each func(cmd *cobra.Command, path []string)
	seen := 0
	each = func(cmd *cobra.Command, path []string) {
		var out bytes.Buffer
		if code := run(context.Background(), subcommands(), append(path, "--help"), &out, &out); code != exitOK {
			t.Fatalf("%q --help: exit code %d", path, code)
		}
		seen++
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if n := utf8.RuneCountInString(line); n > helpWidth && !strings.HasPrefix(line, "\t") { // a command of a shell stays in one line
				t.Errorf("%q --help: %d columns: %s", path, n, line)
			}
		}
		for _, child := range cmd.Commands() {
			if child.Name() != "completion" && child.Name() != "help" {
				each(child, append(path[:len(path):len(path)], child.Name()))
			}
		}
	}
	each(newRoot(subcommands()), nil)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		each(&cobra.Command{}, []string{"completion", shell})
	}
	each(&cobra.Command{}, []string{"completion"})
	if seen < 10 {
		t.Errorf("%d commands seen", seen)
	}
}
