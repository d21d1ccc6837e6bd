// Command proxy compares reverse proxies under overload: the same HTTP server
// alone, behind a plain reverse proxy in Go, behind `spillgate proxy`, and behind
// Envoy without protection, with adaptive_concurrency and with
// admission_control.
//
//	generator, core 1 ──▶ proxy, core 0 ──▶ upstream, core 0: 4 slots, mean 10 ms
//
//	go run ./proxy --envoy "$(./envoy.sh)" --spillgate ../../bin/spillgate
//
// The upstream sleeps, so that the core it shares with the proxy is not its
// bottleneck: by construction it does 400 requests/s, and what it really does is
// measured at the start of each repeat. The objective is 100 ms, which is also how
// long clients wait. Every run starts with a fresh proxy, which knows nothing yet.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	slots     = 4
	mean      = 10 * time.Millisecond
	objective = 100 * time.Millisecond
)

func main() {
	child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// setting is what all runs of a repeat have in common.
type setting struct {
	capacity float64 // requests/s
	length   time.Duration
	patience time.Duration // of the clients
	seed     uint64
}

// plan is what to run.
type plan struct {
	proxies []contender
	loads   []load
	repeats int
	setting
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	envoy := flags.String("envoy", "", "path of Envoy, see envoy.sh (default without Envoy)")
	spillgate := flags.String("spillgate", "", "path of spillgate (default without it)")
	quick := flags.Bool("quick", false, "twice the capacity and a step from 0.4 to 1.4, one run of 2 s each")
	only := flags.String("only", "", "contenders, separated by commas (default all)")
	loads := flags.String("loads", "1,2,4,0.4-1.4,0.4-4", "multiples of the capacity, separated by commas; two of them with a dash between are a step at two fifths of the run")
	patience := flags.Duration("patience", objective, "how long clients wait before they leave")
	repeats := flags.Int("repeats", 3, "how often everything runs; medians count")
	length := flags.Duration("length", 5*time.Second, "time of one run")
	seed := flags.Uint64("seed", 1, "source of arrivals and service times of the first repeat; later ones count up")
	runs := flags.String("runs", "", "`file` of runs: those in it count too, and the new ones are added")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick {
		*loads, *repeats, *length = "2,0.4-1.4", 1, 2*time.Second
	}
	p := plan{proxies: contenders(*envoy, *spillgate), repeats: *repeats, setting: setting{length: *length, patience: *patience, seed: *seed}}
	var mistakes []error
	var err error
	if p.loads, err = parseLoads(*loads); err != nil {
		mistakes = append(mistakes, err)
	}
	if p.proxies, err = choose(p.proxies, *only); err != nil {
		mistakes = append(mistakes, err)
	}
	if p.patience < objective || p.patience > time.Minute {
		mistakes = append(mistakes, fmt.Errorf("--patience %v: expected at least the objective, %v, and at most 1m", p.patience, objective))
	}
	if p.repeats < 0 || p.length < time.Second || p.length > time.Minute {
		mistakes = append(mistakes, fmt.Errorf("--repeats %d --length %v: expected at least 0, and 1s to 1m", p.repeats, p.length))
	}
	if err := errors.Join(mistakes...); err != nil {
		return err
	}
	found, err := readRuns(*runs)
	if err != nil {
		return err
	}
	if err := p.run(ctx, func(m measured) error {
		found = append(found, m)
		return addRun(*runs, m)
	}); err != nil {
		return err
	}
	rows := summarize(found)
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	return printTable(os.Stdout, rows)
}

// run makes the runs of the plan, contender by contender under each load, so that
// those which are compared meet the same machine.
func (p plan) run(ctx context.Context, done func(measured) error) error {
	step, steps := 0, p.repeats*(1+len(p.loads)*len(p.proxies))
	progress := func(what string) {
		step++
		fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d %s", step, steps, what)
	}
	defer fmt.Fprint(os.Stderr, "\r\x1b[K")
	for repeat := range p.repeats {
		s := p.setting
		s.seed += uint64(repeat)
		progress("capacity")
		var err error
		s.capacity, err = measureCapacity(ctx, s)
		if err != nil {
			return fmt.Errorf("capacity: %w", err)
		}
		for _, load := range p.loads {
			for _, c := range p.proxies {
				progress(load.String() + " " + c.name)
				m, err := c.measure(ctx, load, s)
				if err != nil {
					return fmt.Errorf("%s at %s: %w", c.name, load, err)
				}
				if err := done(m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// choose keeps the contenders that are named in only, or all if it is empty.
func choose(all []contender, only string) ([]contender, error) {
	if only == "" {
		return all, nil
	}
	var chosen []contender
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	var mistakes []error
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			mistakes = append(mistakes, fmt.Errorf("--only %q: expected some of %s", name, strings.Join(names, ", ")))
			continue
		}
		chosen = append(chosen, all[i])
	}
	return chosen, errors.Join(mistakes...)
}
