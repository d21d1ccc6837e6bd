package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newManual() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "Print the manual page, for man",
		Long: `Print the manual page of all commands, in the format of man(1).

  spillgate man > spillgate.1 && man ./spillgate.1`,
		Example: "  spillgate man > spillgate.1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeManual(cmd.OutOrStdout(), cmd.Root())
		},
	}
}

// writeManual writes the page of root and all commands below it.
func writeManual(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH SPILLGATE 1\n.SH NAME\nspillgate \\- %s\n.SH SYNOPSIS\n.B spillgate\n.I command\n[flags] [arguments]\n.SH DESCRIPTION\n%s\n", roff(root.Short), paragraphs(root.Long))
	b.WriteString(".SH COMMANDS\n")
	each(root, func(cmd *cobra.Command) {
		about := cmd.Long
		if about == "" {
			about = cmd.Short + "."
		}
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(strings.TrimPrefix(cmd.UseLine(), "spillgate ")), paragraphs(about))
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name, usage := pflag.UnquoteUsage(f)
			if name != "" {
				name = " " + name
			}
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
				usage += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff("--"+f.Name+name), roff(usage))
		})
		if cmd.Example != "" {
			fmt.Fprintf(&b, ".PP\nExamples:\n.nf\n%s\n.fi\n", roff(strings.TrimRight(cmd.Example, "\n")))
		}
	})
	b.WriteString(".SH EXIT STATUS\n0 success, 1 the command started and failed, 2 wrong usage, 130 interrupted.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// each calls f for every command below cmd that help shows and that can be run.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		if !child.IsAvailableCommand() {
			continue
		}
		if child.Runnable() {
			f(child)
		}
		each(child, f)
	}
}

// paragraphs is a text in paragraphs; lines that are indented stay as they are.
func paragraphs(text string) string {
	var parts []string
	for p := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(p, " ") {
			parts = append(parts, ".nf\n"+roff(p)+"\n.fi")
			continue
		}
		parts = append(parts, roff(p))
	}
	return strings.Join(parts, "\n.PP\n")
}

// roff escapes a text: backslashes, hyphens, and what would be a request at the beginning
// of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
