// Command peers compares Spillgate, the baselines of this project and third-party
// overload controllers on real gRPC traffic.
//
//	go run . --quick                            a peer of each project
//	go run .                                    all, five repeats
//	go run . --only failsafe --name wild/live   worlds that no control was tuned for
//	go run . --name admission/proxies --envoy "$(./envoy.sh)"   reverse proxies
//
// It is a module of its own, so users of Spillgate do not download the peers. See
// README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zeromicro/go-zero/core/logx"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/admissionlive"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/front"
	"github.com/spillgate/spillgate/lab/wildlive"
)

func main() {
	logx.Disable() // go-zero writes statistics from the moment it is linked in
	front.Child()
	bed.Child(append(peers(), envoys("")...)...)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run runs one of the experiments with peers beside the contenders that it has anyhow.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	o := experiment.Options{}
	flags.BoolVar(&o.Quick, "quick", false, "fewer worlds, one run of each, and, unless --only names them, the first peer of each project")
	flags.Uint64Var(&o.Seed, "seed", 1, "source of arrivals and service times")
	asJSON := flags.Bool("json", false, "print the result as JSON")
	name := flags.String("name", "admission/peers", "the experiment")
	only := flags.String("only", "", "peers, separated by commas (default all)")
	envoy := flags.String("envoy", "", "path of Envoy, see envoy.sh, for admission/proxies, front/proxies and front/stock (default without Envoy)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only, o.Quick)
	if err != nil {
		return err
	}
	all := append(admissionlive.Experiments(chosen...), wildlive.Experiments(chosen...)...)
	var fronts []bed.Peer
	if *envoy != "" {
		fronts = envoys(*envoy)
	}
	all = append(all, admissionlive.Proxies(fronts...), front.Proxies(envoyFronts(*envoy, time.Second)...), front.Stock(envoyFronts(*envoy, 100*time.Millisecond)...))
	i := slices.IndexFunc(all, func(e experiment.Experiment) bool { return e.Name == *name })
	if i < 0 {
		var names []string
		for _, e := range all {
			names = append(names, e.Name)
		}
		return fmt.Errorf("--name is %q, expected one of %s", *name, strings.Join(names, ", "))
	}
	o.Progress = func(done, of int, what string) { fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d %s", done, of, what) }
	result, err := all[i].Run(ctx, o)
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	if err != nil {
		return err
	}
	result.Name, result.Title, result.Seed, result.Quick = all[i].Name, all[i].Title, o.Seed, o.Quick
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(result); err != nil {
			return err
		}
		return result.Error()
	}
	for _, t := range tables(result) {
		if err := t.Print(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
	}
	return result.Error()
}

// tables are those of a result, with that of its bars if it has some.
func tables(r *experiment.Result) []*table.Table {
	if len(r.Bars) == 0 {
		return r.Table
	}
	return append(r.Table, r.BarTable())
}

// choose returns the peers that take part, or names every one that there is not.
func choose(only string, quick bool) (chosen []bed.Peer, err error) {
	all := peers()
	if only == "" {
		return slices.DeleteFunc(all, func(p bed.Peer) bool { return quick && strings.Contains(p.Name, "-") && p.Name != "go-zero" }), nil
	}
	var unknown []string
	for name := range strings.SplitSeq(only, ",") {
		if i := slices.IndexFunc(all, func(p bed.Peer) bool { return p.Name == name }); i >= 0 {
			chosen = append(chosen, all[i])
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("--only: no peers %q, expected some of failsafe, failsafe-tap, failsafe-queue, failsafe-priority, go-zero and aegis", unknown)
	}
	return chosen, nil
}
