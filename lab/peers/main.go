// Command peers puts Spillgate, the compared policies of this project and other
// people's overload controllers against each other on real gRPC traffic.
//
//	go run . --quick                 the main contenders, under 45 s
//	go run .                         all, three repeats
//	go run . --only failsafe,spillgate --loads 2 --settings spin
//	go run . wild --quick            worlds that nobody tuned for, with failsafe-go
//
// It is a module of its own, so that users of Spillgate do not download its
// peers. See README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zeromicro/go-zero/core/logx"

	"github.com/spillgate/spillgate/lab/arena"
	"github.com/spillgate/spillgate/lab/bed"
)

func main() {
	logx.Disable() // go-zero writes statistics from the moment it is linked in
	all := append(arena.Own(), peers()...)
	arena.Child(all)
	bed.Child(wildPeers()...)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	play := func(args []string) error { return run(ctx, all, args) }
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "wild" {
		play, args = func(args []string) error { return runWild(ctx, args) }, args[1:]
	}
	if err := play(args); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, all []arena.Controller, args []string) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "the main contenders at twice the capacity, one short run each")
	asJSON := flags.Bool("json", false, "print the outcome as JSON")
	only := flags.String("only", "", "controllers, separated by commas (default all)")
	loads := flags.String("loads", "", "multiples of the capacity, separated by commas; \"spike\" is a step from 0.4 to 1.4 (default 1,2,4,spike)")
	settings := flags.String("settings", "", "sleep, spin, \"fast sleep\" and \"fast spin\", separated by commas (default all; the slow two in the quick form)")
	repeats := flags.Int("repeats", 0, "how often everything runs; medians count (default 3)")
	length := flags.Duration("length", 0, "time of one run (default 5s)")
	conns := flags.Int("conns", 100, "connections")
	seed := flags.Uint64("seed", 1, "source of arrivals and service times")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := arena.Plan{Controllers: all, Repeats: *repeats, Length: *length, Conns: *conns, Seed: *seed,
		Loads: []float64{1, 2, 4, arena.Spike}}
	if *quick {
		plan.Controllers = slices.DeleteFunc(slices.Clone(all), func(c arena.Controller) bool { return !c.Quick })
		plan.Loads = []float64{2}
		plan.Repeats = 1
		plan.Length = 1200 * time.Millisecond
		plan.Settings = []arena.Setting{arena.Sleep(), arena.Spin()}
	}
	if err := choose(&plan, all, *only, *loads, *settings); err != nil {
		return err
	}
	if !*asJSON {
		plan.Progress = func(done, of int, what string) { fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d %s", done+1, of, what) }
	}
	outcome, err := arena.Run(ctx, plan)
	if plan.Progress != nil {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(outcome)
	}
	for _, t := range outcome.Tables() {
		if err := t.Print(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
	}
	fmt.Println("seed", outcome.Seed)
	return nil
}

// choose narrows the plan to what was asked for, or says every mistake.
func choose(plan *arena.Plan, all []arena.Controller, only, loads, settings string) error {
	var mistakes []string
	if only != "" {
		plan.Controllers = nil
		for name := range strings.SplitSeq(only, ",") {
			i := slices.IndexFunc(all, func(c arena.Controller) bool { return c.Name == name })
			if i < 0 {
				var names []string
				for _, c := range all {
					names = append(names, c.Name)
				}
				mistakes = append(mistakes, fmt.Sprintf("--only: no controller %q, expected some of %s", name, strings.Join(names, ", ")))
				continue
			}
			plan.Controllers = append(plan.Controllers, all[i])
		}
	}
	if loads != "" {
		plan.Loads = nil
		for text := range strings.SplitSeq(loads, ",") {
			load, err := strconv.ParseFloat(text, 64)
			switch {
			case text == "spike":
				load = arena.Spike
			case err != nil || !(load > 0 && load <= 20):
				mistakes = append(mistakes, fmt.Sprintf("--loads: %q, expected a number above 0 and at most 20, or spike", text))
				continue
			}
			plan.Loads = append(plan.Loads, load)
		}
	}
	if settings != "" {
		plan.Settings = nil
		for name := range strings.SplitSeq(settings, ",") {
			known := arena.Settings()
			i := slices.IndexFunc(known, func(s arena.Setting) bool { return s.Name == name })
			if i < 0 {
				var names []string
				for _, s := range known {
					names = append(names, s.Name)
				}
				mistakes = append(mistakes, fmt.Sprintf("--settings: %q, expected some of %s", name, strings.Join(names, ", ")))
				continue
			}
			plan.Settings = append(plan.Settings, known[i])
		}
	}
	if len(mistakes) > 0 {
		return fmt.Errorf("%s", strings.Join(mistakes, "\n"))
	}
	return nil
}
