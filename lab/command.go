package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/spelling"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/admission"
	"github.com/spillgate/spillgate/lab/admissionlive"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/breakwater"
	"github.com/spillgate/spillgate/lab/breakwaterlive"
	"github.com/spillgate/spillgate/lab/brokers"
	"github.com/spillgate/spillgate/lab/chains"
	"github.com/spillgate/spillgate/lab/cost"
	"github.com/spillgate/spillgate/lab/culprits"
	"github.com/spillgate/spillgate/lab/culpritsim"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/front"
	"github.com/spillgate/spillgate/lab/interactive"
	"github.com/spillgate/spillgate/lab/topics"
	"github.com/spillgate/spillgate/lab/tracing"
	"github.com/spillgate/spillgate/lab/tuning"
	"github.com/spillgate/spillgate/lab/wild"
	"github.com/spillgate/spillgate/lab/wildlive"
	"github.com/spillgate/spillgate/lab/workflows"
	"github.com/spillgate/spillgate/lab/workflowslive"
	"github.com/spillgate/spillgate/lab/worlds"
)

// Experiments returns all there are, in the order of the list.
func Experiments() []experiment.Experiment {
	return slices.Concat(breakwater.Experiments(), breakwaterlive.Experiments(), admission.Experiments(), admissionlive.Experiments(), cost.Experiments(), front.Experiments(), wild.Experiments(), wildlive.Experiments(), tuning.Experiments(), workflows.Experiments(), workflowslive.Experiments(),
		interactive.Experiments(), chains.Experiments(), culpritsim.Experiments(), culprits.Experiments(), tracing.Experiments(), topics.Experiments(), brokers.Experiments())
}

// Command returns the command "lab" with its subcommands.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run experiments, beside other policies and the figures of papers",
		Long: `Ask what would happen, before it does.

"lab world" plays a world of your own, with each policy that you name: your services,
what their requests take, your clients, load over time, faults. It is simulated in
seconds, or played with real processes on this machine (--live). "lab world --help" has a
first world to begin with.

"lab run" repeats an experiment behind a figure of the documentation. It prints its
tables beside the published figures and its bars, and fails if a bar is missed. --quick
is shorter and noisier. "lab list" lists the experiments. Those that start real processes
need an idle machine: a run that other work has disturbed is void, and says so.

Tables and JSON go to standard output, progress and errors to standard error.`,
		Example: `  spillgate lab list
  spillgate lab run breakwater/spike --quick
  spillgate lab world my.yaml --policy spillgate,semaphore:8:16,none`,
	}
	cmd.AddCommand(newList(), newRun(), newWorld(stages{
		simulated: stage{worlds.Simulate, worlds.Policies()},
		live:      stage{bed.Run, append([]string{"spillgate", "spillgate/http", "spillgate/proxy", "none", "none/http", "none/proxy", "semaphore:N", "semaphore:N:Q", "semaphore:N/http", "semaphore:N:Q/http"}, worlds.Peers()...)},
	}))
	return cmd
}

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the experiments and what each shows",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q: the list is of all experiments", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			width := 0
			for _, e := range Experiments() {
				width = max(width, len(e.Name))
			}
			for _, e := range Experiments() {
				fmt.Fprintf(cmd.OutOrStdout(), "%-*s  %s\n", width, e.Name, e.Title)
			}
			return nil
		},
	}
}

func newRun() *cobra.Command {
	var (
		o      experiment.Options
		asJSON bool
		out    string
	)
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run an experiment, and fail if it misses a bar",
		Long: `Run an experiment and print its tables and bars, beside published figures where
there are some. The exit code is 0 if every bar was reached, and 1 if one was missed.`,
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return list(), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d names given, expected one; spillgate lab list lists all %d", len(args), len(Experiments()))
			}
			if _, ok := find(args[0]); !ok {
				if meant := spelling.DidYouMean(args[0], list()); meant != "" {
					return fmt.Errorf("there is no experiment %q%s", args[0], meant)
				}
				return fmt.Errorf("there is no experiment %q; spillgate lab list lists all %d", args[0], len(Experiments()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			e, _ := find(args[0])
			if out != "" {
				if err := plot.Prepare(out); err != nil {
					return err
				}
			}
			progress := newProgress(cmd.ErrOrStderr(), e.Name)
			o.Progress = progress.step
			began := time.Now()
			result, err := e.Run(cmd.Context(), o)
			progress.end()
			if err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
			result.Name, result.Title, result.Seed, result.Quick = e.Name, e.Title, o.Seed, o.Quick
			if out != "" {
				page, err := writeReport(out, e, result)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "report: %s\n", page)
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(result)
			} else {
				err = printResult(cmd.OutOrStdout(), e, result, time.Since(began))
			}
			if err != nil {
				return err
			}
			if err := result.Error(); err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "fewer points, shorter runs, one seed, and the tolerance that the bars state")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers; a full simulated run counts the worst of five seeds from this one on, 1,000 apart")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().StringVar(&out, "out", "", "also write a report with charts into this `directory`")
	return cmd
}

func find(name string) (experiment.Experiment, bool) {
	for _, e := range Experiments() {
		if e.Name == name {
			return e, true
		}
	}
	return experiment.Experiment{}, false
}

func list() (all []string) {
	for _, e := range Experiments() {
		all = append(all, e.Name)
	}
	return all
}

func printResult(w io.Writer, e experiment.Experiment, r *experiment.Result, took time.Duration) error {
	fmt.Fprintf(w, "%s: %s\n\n%s\n\n", e.Name, e.Title, e.About)
	for _, t := range append(r.Table, r.BarTable()) {
		if err := t.Print(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	for _, why := range r.Void {
		fmt.Fprintln(w, "void:", why)
	}
	quick := ""
	if r.Quick {
		quick = ", quick form"
	}
	_, err := fmt.Fprintf(w, "seed %d%s, took %.1f s\n", r.Seed, quick, took.Seconds())
	return err
}

func writeReport(dir string, e experiment.Experiment, r *experiment.Result) (string, error) {
	page := &plot.Report{Title: e.Name + ": " + e.Title, Run: plot.ThisRun(r.Seed)}
	page.Text(e.About)
	for _, c := range r.Chart {
		page.Chart(c)
	}
	for _, t := range append(append([]*table.Table{}, r.Table...), r.BarTable()) {
		page.Table(t)
	}
	page.Text(strings.Join(r.Notes, "\n\n"))
	return page.Write(dir)
}

// progress rewrites one line on a terminal, and prints a line now and then
// elsewhere.
type progress struct {
	w        io.Writer
	name     string
	terminal bool
	last     time.Time
	shown    bool
}

func newProgress(w io.Writer, name string) *progress {
	p := &progress{w: w, name: name}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

func (p *progress) step(done, of int, what string) {
	pause := 5 * time.Second
	if p.terminal {
		pause = 100 * time.Millisecond
	}
	if time.Since(p.last) < pause && done < of {
		return
	}
	p.last, p.shown = time.Now(), true
	line := fmt.Sprintf("%s: %d of %d, %s", p.name, done, of, what)
	if p.terminal {
		fmt.Fprintf(p.w, "\r\033[K%.100s", line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

func (p *progress) end() {
	if p.terminal && p.shown {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
