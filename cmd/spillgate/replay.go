package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/internal/culprit/audit"
)

// newReplay returns the command that computes the decisions of an audit log again.
func newReplay() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay AUDIT.jsonl",
		Short: "Compute the decisions of an audit log again, and compare",
		Long: `Read an audit log, compute every decision again from the sample beside it, and
print them. The exit code is 0 if all are equal to the log, byte for byte, and 1
if one differs; its line is printed with both decisions.`,
		Example: "  spillgate guard replay audit.jsonl",
		Args:    needs("AUDIT.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			return replay(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], log, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the decisions as they stand in a log")
	return cmd
}

// replay prints the decisions of a log, and says which are not what the log says: on aside if the decisions are JSON.
func replay(w, aside io.Writer, path string, log io.Reader, asJSON bool) error {
	if !asJSON {
		aside = w // each beside its decision
	}
	looks, differ := 0, 0
	err := audit.Replay(log, func(l *audit.Look) error {
		looks++
		if asJSON {
			fmt.Fprintf(w, "%s\n", l.Replayed)
		} else if err := describeLook(w, l); err != nil {
			return err
		}
		if !l.Same() {
			differ++
			fmt.Fprintf(aside, "%s:%d: the decision differs\n  log:      %s\n  computed: %s\n", path, l.Line, l.Logged, l.Replayed)
		}
		return nil
	})
	if errors.Is(err, audit.ErrCutOff) {
		fmt.Fprintf(aside, "%s: %v\n", path, err) // what crashes and full disks leave; the rest counts
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if differ > 0 {
		return fmt.Errorf("%s: %d of %d decisions differ", path, differ, looks)
	}
	if !asJSON {
		fmt.Fprintf(w, "%d decisions, all as logged\n", looks)
	}
	return nil
}

// describeLook prints a decision on a line, or two if something was done.
func describeLook(w io.Writer, l *audit.Look) error {
	var d struct {
		State, Why string
		Evidence   struct {
			InFlight int `json:"in_flight"`
			Stuck    int
		}
		Candidates []struct {
			Task  uint64
			Score float64
			Net   float64
			Why   string
		}
		Action, Outcome json.RawMessage
	}
	if err := json.Unmarshal(l.Replayed, &d); err != nil {
		return err
	}
	state := d.State
	if d.Why != "" {
		state += ": " + d.Why
	}
	var tasks []string
	for _, c := range d.Candidates[:min(len(d.Candidates), 3)] {
		text := fmt.Sprintf("%d score %.2f net %.1f", c.Task, c.Score, c.Net)
		if c.Why != "" {
			text += " (" + c.Why + ")"
		}
		tasks = append(tasks, text)
	}
	fmt.Fprintf(w, "%d  %s  %s  %s  in flight %d, stuck %d", l.Line, l.Source, time.Duration(l.At).Round(time.Millisecond), state, d.Evidence.InFlight, d.Evidence.Stuck)
	if len(tasks) > 0 {
		fmt.Fprintf(w, "  tasks %s", strings.Join(tasks, ", "))
	}
	fmt.Fprintln(w)
	for _, part := range []struct {
		name string
		text json.RawMessage
	}{{"action", d.Action}, {"outcome", d.Outcome}} {
		if part.text = bytes.TrimSpace(part.text); len(part.text) > 0 {
			fmt.Fprintf(w, "   %s %s\n", part.name, part.text)
		}
	}
	return nil
}
