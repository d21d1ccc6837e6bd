// Spillgate keeps services inside their latency objectives when demand exceeds
// what they can do. This is its one command; `spillgate help` lists what it can
// do.
//
//	main ── root ──┬── version
//	               └── one file for each subcommand, named after it
//
// A subcommand is a function that returns a *cobra.Command, listed in
// [subcommands]. It checks all its flags and arguments before it starts, and
// returns every mistake at once, joined, through [usage]. It stops when its
// context ends. Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
//
// What this package does not do: no logic of its own stands here, only flags,
// wiring and output.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spillgate/spillgate/lab"
)

func main() {
	lab.Child() // does not return in the processes of a live experiment
	// The first Ctrl-C ends the context, and the command winds down; after it
	// the default is restored, so that the second one kills, unless the command waits for
	// it to say first what it cuts off (serving.hurry).
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, subcommands(), os.Args[1:], os.Stdout, os.Stderr))
}
