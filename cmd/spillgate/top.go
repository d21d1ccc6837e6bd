package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// topFlags are the flags of `spillgate top`.
type topFlags struct {
	once, json bool
	every, slo time.Duration
}

// mostSources is how many sources one view has.
const mostSources = 32

func newTop() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top SOURCE...",
		Short: "Show load, limits, refusals, topics and culprits, live",
		Long: `Show what gates admit and refuse. For watched applications and databases, show which
task holds what, which tasks wait and for how long, what that costs, and which task
Spillgate cancelled or would cancel. For a broker, show its topics: rate and limit,
waiting messages, the time that tokens and the broker itself take, refused messages.

A source is the admin address of a proxy, a guard, a broker or a service with Spillgate's
metrics (host:port or URL), or the path of a task file. top changes nothing, with one
exception: while it watches a task file without an engine, it is that file's engine in
mode monitor, so that the tracers record.

--once looks twice, --every apart, because rates need two looks, prints one screen and
exits; with --json it is for programs. If a source cannot be read, the screen says so and
--once fails.`,
		Example: `  spillgate top 127.0.0.1:9090 127.0.0.1:9091
  spillgate top --once --json 127.0.0.1:9090`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runTop(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "print one screen and exit")
	flags.BoolVar(&f.json, "json", false, "with --once: print JSON")
	flags.DurationVar(&f.every, "every", time.Second, "`duration` between two looks, 100ms to 1m")
	flags.DurationVar(&f.slo, "slo", 100*time.Millisecond, "latency objective of tasks in task files: a `duration`")
	return cmd
}

func runTop(cmd *cobra.Command, f topFlags, sources []string) error {
	var mistakes []error
	if len(sources) == 0 || len(sources) > mostSources {
		mistakes = append(mistakes, fmt.Errorf("%d sources, expected 1 to %d: host:port of an admin address, or a task file", len(sources), mostSources))
	}
	if f.every < 100*time.Millisecond || f.every > time.Minute {
		mistakes = append(mistakes, fmt.Errorf("--every %v: expected 100ms to 1m", f.every))
	}
	if f.slo <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--slo %v: expected a duration above 0, such as 100ms", f.slo))
	}
	if f.json && !f.once {
		mistakes = append(mistakes, errors.New("--json: expected together with --once"))
	}
	if err := usage(mistakes...); err != nil {
		return err
	}
	var readers []topReader
	defer func() {
		for _, r := range readers {
			r.Close()
		}
	}()
	for _, source := range sources {
		r, err := openTop(source, f.slo)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		readers = append(readers, r)
	}
	if err := usage(mistakes...); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if !f.once {
		if !isTerminal(out) {
			return usage(errors.New("the output is not a terminal; use --once, or --once --json"))
		}
		return topLive(cmd.Context(), out.(*os.File), readers, f.every)
	}
	return topOnce(cmd.Context(), out, readers, f)
}

// readTop reads all sources side by side.
func readTop(ctx context.Context, readers []topReader, before *topView) *topView {
	v := &topView{At: time.Now(), Sources: make([]topSource, len(readers))}
	var reading sync.WaitGroup
	for i, r := range readers {
		reading.Go(func() { v.Sources[i] = r.Read(ctx) })
	}
	reading.Wait()
	v.rates(before)
	return v
}

// topOnce prints one view.
func topOnce(ctx context.Context, out io.Writer, readers []topReader, f topFlags) error {
	first := readTop(ctx, readers, nil)
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-time.After(f.every):
	}
	v := readTop(ctx, readers, first)
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return err
		}
	} else if _, err := io.WriteString(out, newTopLook(out).screen(v, topWidth(out))); err != nil {
		return err
	}
	var failed []error
	for _, s := range v.Sources {
		if s.Error != "" {
			failed = append(failed, fmt.Errorf("%s: %s", s.Name, s.Error))
		}
	}
	return errors.Join(failed...)
}

// topWidth is the terminal's width, or 80 columns.
func topWidth(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}
