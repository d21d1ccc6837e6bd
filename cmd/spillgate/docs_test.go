package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/lab"
)

// Every command line that a page shows is one that the program understands: the command
// exists, it takes the flags and as many arguments, and the files in it are there.
func TestCommandsInPages(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, _ := filepath.Glob(filepath.Join(root, "d*", "*.md"))
	more, _ := filepath.Glob(filepath.Join(root, "*.md"))
	below, _ := filepath.Glob(filepath.Join(root, "d*", "*", "*.md"))
	block := regexp.MustCompile("(?s)```(?:sh|console)?\n(.*?)```")
	inline := regexp.MustCompile("`(spillgate [a-z][^`\n]*)`")
	seen := 0
	for _, page := range append(append(pages, more...), below...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.Split(found[1], "\n")...)
		}
		for _, found := range inline.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, found[1])
		}
		for _, line := range lines {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/"), " > ")
			if rest, ok := strings.CutPrefix(line, "spillgate "); ok && !strings.Contains(rest, "…") {
				seen++
				checkCommand(t, root, filepath.Base(page), words(rest))
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d commands found, expected those of README.md and docs", seen)
	}
}

func checkCommand(t *testing.T, root, page string, args []string) {
	command := newRoot(subcommands())
	command.InitDefaultCompletionCmd()
	cmd, rest, err := command.Find(args)
	if err != nil || cmd == command {
		t.Errorf("%s: spillgate %s: no such command (%v)", page, strings.Join(args, " "), err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("%s: spillgate %s: %v", page, strings.Join(args, " "), err)
		return
	}
	given := cmd.Flags().Args()
	if cmd.Name() == "run" && len(given) == 1 {
		for _, e := range lab.Experiments() {
			if e.Name == given[0] || given[0] == "NAME" {
				return
			}
		}
		t.Errorf("%s: there is no experiment %s", page, given[0])
	}
	if cmd.Args != nil && len(given) > 0 && cmd.Name() != "run" {
		if err := cmd.Args(cmd, given); err != nil {
			t.Errorf("%s: spillgate %s: %v", page, strings.Join(args, " "), err)
		}
	}
	for _, arg := range given {
		if strings.HasPrefix(arg, "examples/") {
			if _, err := os.Stat(filepath.Join(root, arg)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// words splits a line as a shell does; single quotes are all that pages use.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// Every experiment whose figures a page shows exists.
func TestExperimentsInPages(t *testing.T) {
	known := map[string]bool{}
	for _, e := range lab.Experiments() {
		known[e.Name] = true
	}
	name := regexp.MustCompile("^\\| `([a-z0-9]+/[a-z0-9-]+)(?: --quick)?`")
	for _, page := range []string{"README.md", "docs/results.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for line := range strings.Lines(string(text)) {
			if found := name.FindStringSubmatch(line); found != nil {
				if seen++; !known[found[1]] {
					t.Errorf("%s: there is no experiment %s", page, found[1])
				}
			}
		}
		if seen == 0 {
			t.Errorf("%s: no experiment found", page)
		}
	}
}

// Every experiment has its figures in docs/results.md, in one of the records behind it, or in the list of what was not
// measured there. Of those of culprits, pages name what follows atropos/, and of several in a row what differs.
func TestResultsOfExperiments(t *testing.T) {
	pages, _ := filepath.Glob(filepath.Join("..", "..", "docs", "results", "*.md"))
	var text strings.Builder
	for _, page := range append(pages, filepath.Join("..", "..", "docs", "results.md")) {
		bytes, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(bytes)
	}
	named := map[string]bool{}
	for _, found := range regexp.MustCompile("`(?:atropos/)?(-?[a-z0-9/-]+)(?: --quick)?`").FindAllStringSubmatch(text.String(), -1) {
		named[found[1]] = true
	}
	for _, e := range lab.Experiments() {
		// Parts of wild/live, and the same over HTTP, stand beside the whole.
		name := strings.TrimSuffix(strings.TrimPrefix(e.Name, "atropos/"), "-http")
		_, rest, _ := strings.Cut(name, "-")
		if !named[name] && !named["-"+rest] && !strings.HasPrefix(name, "sim-c") && !strings.HasPrefix(name, "wild/live-") {
			t.Errorf("no page of results names %s", e.Name)
		}
	}
}
