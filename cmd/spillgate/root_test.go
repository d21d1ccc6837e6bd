package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// newServe is a command such as the real ones: typed flags, checks of its own,
// work that fails or is interrupted.
func newServe() *cobra.Command {
	var (
		slo     time.Duration
		clients int
		fail    bool
	)
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve",
		Example: "  spillgate serve --slo 100ms",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var badSLO, badClients error
			if slo < 0 {
				badSLO = fmt.Errorf("--slo %v: expected a positive duration", slo)
			}
			if clients < 0 {
				badClients = fmt.Errorf("--clients %d: expected at least 0", clients)
			}
			if err := usage(badSLO, badClients); err != nil {
				return err
			}
			if fail {
				return errors.New("the upstream is gone")
			}
			return cmd.Context().Err()
		},
	}
	cmd.Flags().DurationVarP(&slo, "slo", "s", time.Second, "latency objective")
	cmd.Flags().IntVar(&clients, "clients", 1, "clients")
	cmd.Flags().BoolVar(&fail, "fail", false, "fail")
	return cmd
}

func TestRun(t *testing.T) {
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"serve", exitOK, ""},
		{"serve -s 2s --clients=3", exitOK, ""},
		{"help serve", exitOK, ""},
		{"serve --help", exitOK, ""},
		{"serve --fail", exitFailure, "spillgate serve: the upstream is gone\n"},
		{"serv", exitUsage, `spillgate: unknown command "serv"; did you mean serve?
Run 'spillgate --help' for its flags and arguments.
`},
		{"serve --slo fast", exitUsage, `spillgate serve: --slo "fast": time: invalid duration "fast", expected a duration such as 100ms
Run 'spillgate serve --help' for its flags and arguments.
`},
		// Everything at once: values, unknown names long and short, arguments.
		{"serve here --slo=fast --no-such=1 -x --clients many --fail=perhaps", exitUsage, `spillgate serve: 6 mistakes:
  unknown flag: --no-such
  unknown shorthand flag: 'x' in -x
  --slo "fast": time: invalid duration "fast", expected a duration such as 100ms
  --clients "many": invalid syntax, expected a whole number
  --fail "perhaps": invalid syntax, expected true or false
  unexpected argument "here": whatever this command needs is a flag
Run 'spillgate serve --help' for its flags and arguments.
`},
		{"serve --no-such --slo", exitUsage, `spillgate serve: 2 mistakes:
  unknown flag: --no-such
  flag needs an argument: --slo
Run 'spillgate serve --help' for its flags and arguments.
`},
		{"serve --slo -1s --clients -5", exitUsage, `spillgate serve: 2 mistakes:
  --slo -1s: expected a positive duration
  --clients -5: expected at least 0
Run 'spillgate serve --help' for its flags and arguments.
`},
		{"serv --no-such", exitUsage, `spillgate: 2 mistakes:
  unknown flag: --no-such
  unknown command "serv"; did you mean serve?
Run 'spillgate --help' for its flags and arguments.
`},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []func() *cobra.Command{newServe}, strings.Fields(test.args), &stdout, &stderr)
			if code != test.code || stderr.String() != test.stderr {
				t.Errorf("exit code %d, want %d; stderr:\n%s\nwant:\n%s", code, test.code, stderr.String(), test.stderr)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []func() *cobra.Command{newServe}, []string{"serve"}, &stdout, &stderr)
	if want := "spillgate serve: interrupted\n"; code != exitInterrupted || stderr.String() != want {
		t.Errorf("exit code %d, stderr %q, want %d, %q", code, stderr.String(), exitInterrupted, want)
	}
}

// Every subcommand has to explain itself, and help shows an example of each.
func TestHelp(t *testing.T) {
	root := newRoot(subcommands())
	for _, cmd := range root.Commands() {
		if cmd.Short == "" || cmd.Args == nil || cmd.RunE == nil && !cmd.HasSubCommands() {
			t.Errorf("%s: Short, Args and RunE must be set", cmd.Name())
		}
		if !strings.Contains(cmd.Example, "spillgate "+cmd.Name()) {
			t.Errorf("%s: no example", cmd.Name())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), subcommands(), nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, cmd := range root.Commands() {
		if !strings.Contains(stdout.String(), "  "+cmd.Name()+" ") || !strings.Contains(stdout.String(), cmd.Example) {
			t.Errorf("help does not show %s and its example:\n%s", cmd.Name(), stdout.String())
		}
	}
}

func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got, want := version(info), "spillgate development (0123456789ab with changes), "; !strings.HasPrefix(got, want) {
		t.Errorf("version = %q, want prefix %q", got, want)
	}
	info.Main.Version = "v1.2.3"
	if got, want := version(info), "spillgate v1.2.3 ("; !strings.HasPrefix(got, want) {
		t.Errorf("version = %q, want prefix %q", got, want)
	}
	for release, want := range map[string]string{
		"v1.2.3":                               "spillgate v1.2.3, ", // go install …@v1.2.3
		"v0.0.0-20261125131234-0123456789ab":   "spillgate v0.0.0-20261125131234-0123456789ab (0123456789ab), ",
		"v1.2.4-0.20261125131234-0123456789ab": "spillgate v1.2.4-0.20261125131234-0123456789ab (0123456789ab), ",
	} {
		if got := version(&debug.BuildInfo{Main: debug.Module{Version: release}}); !strings.HasPrefix(got, want) {
			t.Errorf("version = %q, want prefix %q", got, want)
		}
	}
	if got := version(&debug.BuildInfo{}); !strings.Contains(got, "unknown commit") {
		t.Errorf("version = %q without a commit", got)
	}
}
