package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/spelling"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worldfile"
)

// player runs a world once with a policy and a seed.
type player func(ctx context.Context, w *world.World, policy string, seed uint64) (*world.Report, error)

// stage is where worlds can be played.
type stage struct {
	play player
	// policies are the forms of policy names, such as none and semaphore:N:Q.
	policies []string
}

// stages are the simulator, and real processes on this machine.
type stages struct{ simulated, live stage }

// of returns the stage that is asked for.
func (s *stages) of(live bool) *stage {
	if live {
		return &s.live
	}
	return &s.simulated
}

// maxSeeds is the most seeds of one command.
const maxSeeds = 1000

// worldOptions are the flags of "lab world".
type worldOptions struct {
	policies  []string
	seed      uint64
	seeds     int
	live      bool
	onlyCheck bool
	asJSON    bool
	out       string
}

// firstWorld is what the help begins with.
const firstWorld = `  objective: 100ms      # the latency that callers should see
  warmup: 5s            # not counted
  length: 30s
  services:
  - name: api
    workers: 8          # requests that it works on at a time
    steps: {wait: exponential 10ms}
  clients:
  - {name: web, clients: 20, ask: api, load: 2x} # twice the capacity
`

// newWorld returns the command "world".
func newWorld(s stages) *cobra.Command {
	var o worldOptions
	cmd := &cobra.Command{
		Use:   "world FILE",
		Short: "What if: play a world that a file describes, with each policy",
		Long: `Read a world (services, what their requests take, clients, load, faults) from a
YAML file, play it with each policy, and print what the clients of each group got and what
the services did. Nothing is needed but the file. A first one:

` + firstWorld + `
Your own traffic is a load too: {arrivals: trace.csv}, with an instant a line; and so are
your service times: wait: {histogram: times.csv}, with lines of seconds,count. docs/worlds.md
of https://github.com/spillgate/spillgate has every key, and examples/worlds a file for
each of many questions.

A seed decides all chance: the same file, policy and seed give the same figures in the
simulator. With several seeds the counts are means, and the latencies are the worst seed's.

The exit code is 0 if the world was played, whatever came of it, and 1 if the file has
mistakes. All of them are printed.`,
		Example: `  spillgate lab world examples/worlds/double.yaml
  spillgate lab world my.yaml --policy spillgate,semaphore:8:16,none \
      --seeds 5 --out out/my`,
		Args: func(_ *cobra.Command, args []string) error {
			var mistakes []error
			if len(args) != 1 {
				mistakes = append(mistakes, fmt.Errorf("%d files given, expected one", len(args)))
			}
			return errors.Join(append(mistakes, o.mistakes(s.of(o.live).policies)...)...)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := worldfile.Load(args[0])
			if err != nil {
				return fmt.Errorf("%s cannot be played:\n%w", args[0], err)
			}
			if o.onlyCheck {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: ok: %s\n%s", args[0], describeWorld(w), describeCapacity(w.WithDefaults()))
				return err
			}
			return playWorld(cmd, &s, &o, w.WithDefaults())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.policies, "policy", []string{"spillgate", "none"}, "policies to compare, separated by commas: "+strings.Join(s.simulated.policies, ", ")+"; live: "+strings.Join(s.live.policies, ", "))
	f.Uint64Var(&o.seed, "seed", 1, "source of all chance")
	f.IntVar(&o.seeds, "seeds", 1, fmt.Sprintf("how many seeds to play, from --seed on, 1 to %d", maxSeeds))
	f.BoolVar(&o.live, "live", false, "play it with real processes on this machine, one run after the other, instead of simulating it")
	f.BoolVar(&o.onlyCheck, "check", false, "only say what is wrong with the file, or what it describes")
	f.BoolVar(&o.asJSON, "json", false, "print the result as JSON")
	_ = cmd.RegisterFlagCompletionFunc("policy", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return s.of(o.live).policies, cobra.ShellCompDirectiveNoFileComp
	})
	f.StringVar(&o.out, "out", "", "also write a report with charts into this `directory`")
	return cmd
}

// mistakes returns what is wrong with the flags.
func (o *worldOptions) mistakes(known []string) []error {
	var all []error
	if o.seeds < 1 || o.seeds > maxSeeds {
		all = append(all, fmt.Errorf("--seeds is %d, expected 1 to %d", o.seeds, maxSeeds))
	}
	if len(o.policies) == 0 {
		all = append(all, fmt.Errorf("--policy names none, expected some of: %s", strings.Join(known, ", ")))
	}
	for i, policy := range o.policies {
		if !slices.ContainsFunc(known, func(form string) bool { return hasForm(policy, form) }) {
			if meant := spelling.DidYouMean(policy, known); meant != "" {
				all = append(all, fmt.Errorf("--policy %q is unknown%s", policy, meant))
				continue
			}
			all = append(all, fmt.Errorf("--policy %q, expected one of: %s", policy, strings.Join(known, ", ")))
		} else if slices.Contains(o.policies[:i], policy) {
			all = append(all, fmt.Errorf("--policy %q comes twice, expected it once", policy))
		}
	}
	return all
}

// hasForm reports whether a policy is written as form says, in which a part of capital
// letters stands for a number: semaphore:8/http is as semaphore:N/http, and semaphore:2x:4x
// as semaphore:Nx:Qx.
func hasForm(policy, form string) bool {
	split := func(s string) []string { return strings.Split(strings.ReplaceAll(s, "/", ":/"), ":") }
	parts, forms := split(policy), split(form)
	return slices.EqualFunc(parts, forms, func(part, form string) bool {
		if number, ok := strings.CutSuffix(form, "x"); ok {
			if part, ok = strings.CutSuffix(part, "x"); !ok {
				return false
			}
			form = number
		}
		if strings.HasPrefix(form, "/") || form != strings.ToUpper(form) {
			return part == form
		}
		n, err := strconv.Atoi(part)
		return err == nil && n >= 0
	})
}

// played is what came of a world with one policy.
type played struct {
	policy string
	// reports has one report for each seed.
	reports []*world.Report
}

// playWorld plays w with all policies and seeds, and shows what came of it.
func playWorld(cmd *cobra.Command, s *stages, o *worldOptions, w *world.World) error {
	if o.out != "" {
		if err := plot.Prepare(o.out); err != nil {
			return err
		}
	}
	progress := newProgress(cmd.ErrOrStderr(), w.Name)
	began := time.Now()
	results, err := playAll(cmd.Context(), s, o, w, progress.step)
	progress.end()
	if err != nil {
		return err
	}
	if o.out != "" {
		page, err := worldPage(w, results, o.seed).Write(o.out)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "report: %s\n", page)
	}
	if o.asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(worldJSON(w, results))
	}
	return printWorld(cmd.OutOrStdout(), w, results, o, time.Since(began))
}

// playAll plays w with all policies and seeds: simulations on all processors, real
// processes one world after the other.
func playAll(ctx context.Context, s *stages, o *worldOptions, w *world.World, step func(done, of int, what string)) ([]played, error) {
	type run struct {
		policy string
		seed   uint64
	}
	var runs []run
	for _, policy := range o.policies {
		for k := range o.seeds {
			runs = append(runs, run{policy, o.seed + uint64(k)})
		}
	}
	name := func(r *run) string { return fmt.Sprintf("%s, seed %d", r.policy, r.seed) }
	var reports []*world.Report
	if o.live {
		for i := range runs {
			step(i, len(runs), name(&runs[i]))
			r, err := s.live.play(ctx, w, runs[i].policy, runs[i].seed)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name(&runs[i]), err)
			}
			reports = append(reports, r)
		}
	} else {
		var err error
		reports, err = experiment.Each(ctx, experiment.Options{Progress: step}, runs, func(r *run) (string, float64) { return name(r), 0 },
			func(ctx context.Context, r *run) (*world.Report, error) {
				return s.simulated.play(ctx, w, r.policy, r.seed)
			})
		if err != nil {
			return nil, err
		}
	}
	var results []played
	for i, policy := range o.policies {
		results = append(results, played{policy, reports[i*o.seeds : (i+1)*o.seeds]})
	}
	return results, nil
}

// describeWorld says in one line what is in w.
func describeWorld(w *world.World) string {
	count := func(n int, what string) string {
		if n == 1 {
			return fmt.Sprintf("%d %s", n, what)
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	parts := []string{"objective " + w.Objective.String(), w.Length.String() + " long"}
	if w.Warmup > 0 {
		parts[1] += " with " + w.Warmup.String() + " of warm-up"
	}
	parts = append(parts, count(len(w.Services), "service"), count(len(w.Clients), "group")+" of clients")
	if len(w.Faults) > 0 {
		parts = append(parts, count(len(w.Faults), "fault"))
	}
	return strings.Join(parts, ", ")
}

// describeCapacity says in a line what the capacity for each group is, or nothing if
// none is limited. It expects a world from WithDefaults.
func describeCapacity(w *world.World) string {
	var parts []string
	for i := range w.Clients {
		if c := w.Capacity(i); !math.IsInf(c, 1) {
			parts = append(parts, fmt.Sprintf("%s %.4g/s", w.Clients[i].Name, c))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "capacity for what each group asks, by itself: " + strings.Join(parts, ", ") + "\n"
}

// worldTables returns the tables that have rows.
func worldTables(w *world.World, results []played) []*table.Table {
	all := []*table.Table{clientTable(w, results), reasonTable(w, results), serviceTable(results)}
	return slices.DeleteFunc(all, func(t *table.Table) bool { return t.Len() == 0 })
}

// printWorld prints tables and what happened over time.
func printWorld(out io.Writer, w *world.World, results []played, o *worldOptions, took time.Duration) error {
	fmt.Fprintf(out, "%s: %s\n%s\n", w.Name, describeWorld(w), describeCapacity(w))
	for _, t := range worldTables(w, results) {
		if err := t.Print(out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, goodputLines(results))
	for _, p := range results {
		for _, r := range p.reports {
			if r.Void != "" {
				fmt.Fprintf(out, "void: %s, seed %d: %s\n", p.policy, r.Seed, r.Void)
			}
		}
	}
	seeds := fmt.Sprintf("seed %d", o.seed)
	if o.seeds > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", o.seed, o.seed+uint64(o.seeds)-1)
	}
	_, err := fmt.Fprintf(out, "%s, took %.1f s\n", seeds, took.Seconds())
	return err
}
