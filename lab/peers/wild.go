package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/wildlive"
)

// wildPeers are the third-party controllers that play worlds.
func wildPeers() []bed.Peer {
	return []bed.Peer{{Name: "failsafe", Options: func() []grpc.ServerOption {
		return intercept(failsafegrpc.NewUnaryServerInterceptor[any](adaptivelimiter.NewWithDefaults[any]())).Options
	}}}
}

// runWild runs one of the experiments wild/live… with the peers beside the semaphores.
func runWild(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("peers wild", flag.ContinueOnError)
	o := experiment.Options{}
	flags.BoolVar(&o.Quick, "quick", false, "fewer worlds, one run of each")
	flags.Uint64Var(&o.Seed, "seed", 1, "source of arrivals and service times")
	name := flags.String("name", "wild/live", "the experiment")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all := wildlive.Experiments(wildPeers()...)
	i := slices.IndexFunc(all, func(e experiment.Experiment) bool { return e.Name == *name })
	if i < 0 {
		var names []string
		for _, e := range all {
			names = append(names, e.Name)
		}
		return fmt.Errorf("--name is %q, expected one of %q", *name, names)
	}
	o.Progress = func(done, of int, what string) { fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d %s", done+1, of, what) }
	result, err := all[i].Run(ctx, o)
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	if err != nil {
		return err
	}
	for _, t := range append(result.Table, result.BarTable()) {
		if err := t.Print(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
	}
	return result.Error()
}
