package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the widest line of help in columns: terminals have 80.
const helpWidth = 79

// fitHelp has the help of cmd and of all below it fit into a terminal.
func fitHelp(cmd *cobra.Command) {
	cmd.SetUsageTemplate(strings.NewReplacer(
		"Flags.FlagUsages", fmt.Sprint("Flags.FlagUsagesWrapped ", helpWidth),
		"for more information about a command", "for more about a command",
	).Replace(cmd.UsageTemplate()))
	fitLong(cmd)
}

func fitLong(cmd *cobra.Command) {
	cmd.Long = fill(cmd.Long)
	for _, child := range cmd.Commands() {
		fitLong(child)
	}
}

// fill breaks the lines of paragraphs anew. One with a line that is indented stays as it is.
func fill(text string) string {
	all := strings.Split(text, "\n\n")
	for i, p := range all {
		if strings.ContainsAny(p[:min(len(p), 1)], " \t") || strings.Contains(p, "\n ") || strings.Contains(p, "\n\t") {
			continue
		}
		var out strings.Builder
		column := 0
		for _, word := range strings.Fields(p) {
			width := len([]rune(word))
			switch {
			case column == 0:
			case column+1+width > helpWidth:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += width
		}
		all[i] = out.String()
	}
	return strings.Join(all, "\n\n")
}
