package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/internal/spelling"
)

// subcommands lists the constructors, in the order in which help shows them.
func subcommands() []func() *cobra.Command {
	return []func() *cobra.Command{
		newDemo,
		newProxy,
		newGuard,
		newBroker,
		newPlace,
		newTop,
		newExplain,
		newCheck,
		newLab,
		newVersion,
		newManual,
	}
}

// Exit codes, the same for every subcommand.
const (
	exitOK      = 0
	exitFailure = 1 // it started and did not reach its end, or fell short
	exitUsage   = 2 // it never started, because of how it was called
	// exitInterrupted is what shells report of a program that Ctrl-C ended.
	exitInterrupted = 130
)

// errInterrupted is returned by a command that ends by itself and was
// stopped before.
var errInterrupted = errors.New("interrupted")

// run executes one command line and returns its exit code.
func run(ctx context.Context, commands []func() *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root := newRoot(commands)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd() // it prints to stdout as it is now
	parents(root)                   // of it too: an unknown shell is a mistake
	fitLong(root)
	started := false
	watchStart(root, &started)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, first error) error {
		return flagMistakes(cmd, args, first)
	})

	cmd, err := root.ExecuteContextC(ctx)
	var wrong *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong) || !started:
		printMistakes(stderr, cmd, err)
		return exitUsage
	case errors.Is(err, errInterrupted), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintf(stderr, "%s: interrupted\n", cmd.CommandPath())
		return exitInterrupted
	}
	for _, failure := range flatten(err) {
		fmt.Fprintf(stderr, "%s: %v%s\n", cmd.CommandPath(), failure, advice(failure))
	}
	return exitFailure
}

// newRoot assembles the command tree.
func newRoot(commands []func() *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "spillgate",
		Short: "Keep services inside their latency objectives under overload",
		Long: `Spillgate keeps services inside their latency objectives when clients send more
than the services can handle. As a proxy in front of a service, or as a library
inside it, it admits the requests that can be answered in time. The other
requests wait or are refused where that costs least: at the client.`,
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var examples []string
	for _, construct := range commands {
		cmd := construct()
		root.AddCommand(cmd)
		if cmd.Example != "" {
			examples = append(examples, strings.TrimRight(cmd.Example, "\n"))
		}
	}
	// Help shows the examples of what exists and of nothing else.
	root.Example = strings.Join(examples, "\n")
	completeValues(root)
	parents(root)
	fitHelp(root)
	return root
}

// flagValues are the values of flags that have few, for shells to complete. A flag means the same in every command.
var flagValues = map[string][]string{
	"mode":       {"off", "monitor", "enforce"},
	"log-level":  {"debug", "info", "warn", "error"},
	"log-format": {"text", "json"},
	"anonymous":  {"loopback", "anywhere", "nowhere"},
}

func completeValues(cmd *cobra.Command) {
	for flag, values := range flagValues {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, child := range cmd.Commands() {
		completeValues(child)
	}
}

// parents makes commands that only have subcommands say that a name is unknown, and which
// one was probably meant. On its own, cobra shows their help for any name.
func parents(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		parents(child)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() && cmd.HasParent() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		names := []string{"help", "completion"}
		for _, child := range cmd.Commands() {
			names = append(names, child.Name())
		}
		return fmt.Errorf("unknown command %q%s", args[0], spelling.DidYouMean(args[0], names))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// watchStart makes every command note that it began to run, which tells a
// failure from wrong usage: cobra's own checks all come before.
func watchStart(cmd *cobra.Command, started *bool) {
	if runE := cmd.RunE; runE != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return runE(cmd, args)
		}
	}
	for _, child := range cmd.Commands() {
		watchStart(child, started)
	}
}
