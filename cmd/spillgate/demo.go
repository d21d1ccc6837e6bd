package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/page"
	"github.com/spillgate/spillgate/internal/demo/screen"
	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/plot"
)

// demoFlags are the flags of the demo.
type demoFlags struct {
	quick, plain, json, noPage bool
	brief                      bool
	addr, out                  string
	seed                       uint64
}

func newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Overload real services, with and without Spillgate, and watch",
		Long: `Run real services on this machine, overload them, and show what happens, in the
terminal and on a web page. The demo has six acts, ends after about 90 seconds, and
writes a report.

Acts 1 and 2: three services, entry, middle and store, call each other over gRPC. They
get the same requests at the same instants twice: without gates, and with a gate in
front of each service and credits at each client.

Act 3: three tenants share the gated services. Two stay within their share; the third
sends three times the capacity.

Act 4: checkouts visit four servers one after the other, beside a flood of reads that
visit one server: first in order of arrival, then weighed by class.

Act 5: one request takes the lock of a store: first without Spillgate, then behind a
gate that cancels that request.

Act 6: one topic floods a message broker: first without limits, then with a rate for
each topic.`,
		Example: `  spillgate demo
  spillgate demo --quick --plain`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var badAddr, badOut error
			if _, _, err := net.SplitHostPort(f.addr); err != nil {
				badAddr = fmt.Errorf("--addr %q: %w, expected host:port such as 127.0.0.1:8080, port 0 for any", f.addr, err)
			}
			if f.out == "" {
				badOut = errors.New("--out is empty, expected a directory")
			}
			if badOut == nil {
				badOut = plot.Prepare(f.out)
			}
			if err := usage(badAddr, badOut); err != nil {
				return err
			}
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return runDemo(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.quick, "quick", false, "play less than half of the time, with noisier figures")
	flags.BoolVar(&f.brief, "brief", false, "play some seconds, whose figures say nothing, as tests do")
	_ = flags.MarkHidden("brief")
	flags.BoolVar(&f.plain, "plain", false, "print lines, also on a terminal")
	flags.BoolVar(&f.json, "json", false, "print only the result, as JSON")
	flags.BoolVar(&f.noPage, "no-page", false, "do not serve the web page")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:0", "`address` of the web page; every client that reaches it can watch")
	flags.StringVar(&f.out, "out", "out/demo", "`directory` of the report; files with the same names are replaced")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of arrivals and service times (default random, printed)")
	cmd.AddCommand(&cobra.Command{
		Use:    "part",
		Short:  "Play a part in the demo",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return stage.Run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	})
	return cmd
}

// view shows the demo while it goes on.
type view interface {
	// Show is given each new state; it must not block for long.
	Show(demo.State)
	// Close ends the view and leaves the terminal as it was.
	Close()
}

type noView struct{}

func (noView) Show(demo.State) {}
func (noView) Close()          {}

type lineView struct{ *demo.Lines }

func (lineView) Close() {}

// runDemo plays the demo with its views and prints the result.
func runDemo(ctx context.Context, f demoFlags, stdout, stderr io.Writer) error {
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)

	var server *page.Server
	url := ""
	if !f.noPage {
		var err error
		if server, err = page.Serve(f.addr); err != nil {
			return fmt.Errorf("%w; choose another --addr, or --no-page", err)
		}
		defer server.Close()
		url = server.URL()
	}
	var v view
	switch {
	case f.json:
		v = noView{}
	case !f.plain && isTerminal(stdout):
		v = screen.Open(stdout.(*os.File), url, func() { interrupt(context.Canceled) })
	default:
		fmt.Fprintf(stdout, "spillgate demo, seed %d\n", f.seed)
		if url != "" {
			fmt.Fprintf(stdout, "live page: %s\n", url)
		}
		v = lineView{demo.NewLines(stdout)}
	}
	if f.json && url != "" {
		fmt.Fprintf(stderr, "live page: %s\n", url)
	}

	cfg := demo.Config{
		Plan: demo.Full(), Quick: f.quick, Seed: f.seed, Command: []string{"demo", "part"},
		Report: func(s demo.State) (string, error) { return demo.WriteReport(f.out, s) },
		Publish: func(s demo.State) {
			v.Show(s)
			if server != nil {
				server.Show(s)
			}
		},
	}
	switch {
	case f.brief:
		cfg.Plan = demo.Brief()
	case f.quick:
		cfg.Plan = demo.Quick()
	}
	state, err := demo.Play(ctx, cfg)
	v.Close()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case f.json:
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		return out.Encode(state)
	}
	return printResult(stdout, state)
}

// printResult prints the tables and where the report is.
func printResult(w io.Writer, s demo.State) error {
	for _, t := range demo.Tables(s) {
		fmt.Fprintln(w)
		if err := t.Print(w); err != nil {
			return err
		}
	}
	repeat := fmt.Sprintf("spillgate demo --seed %d", s.Seed)
	if s.Quick {
		repeat += " --quick"
	}
	_, err := fmt.Fprintf(w, "\nreport: %s\nagain:  %s\n", s.Report, repeat)
	return err
}

// isTerminal reports whether w is a terminal that can be drawn on.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
