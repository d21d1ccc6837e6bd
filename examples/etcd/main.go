// Command etcd is an etcd that runs inside of a program, behind a gate that finds the
// request which keeps its index from all others.
//
//	writers  ──▶ gate ──▶ etcd: put
//	counters ──▶ gate ──▶ etcd: count all keys, again and again
//
// Run it with `go run .` in this directory, which is a module of its own, so that users
// of Spillgate do not download etcd. Sixty-four writers put keys; after two seconds four
// clients begin to count half a million keys in a loop. Without the gate (-control=false)
// the writers then get a few keys a second through. The gate names the counts, cancels them
// and for a while refuses new ones.
//
// With -serve it only serves, until its input ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/spillgate/spillgate"
)

func main() {
	control := flag.Bool("control", true, "put etcd behind a gate")
	objective := flag.Duration("slo", 50*time.Millisecond, "latency that clients should see")
	serve := flag.Bool("serve", false, "serve, print the address and what the gate does, until the input ends")
	keys := flag.Int("keys", 500_000, "keys to count")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *control, *objective, *serve, *keys); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, control bool, objective time.Duration, serve bool, keys int) error {
	s, err := open(ctx, control, objective, func(n spillgate.CulpritNotice) {
		if n.Kind != "" {
			fmt.Fprintf(out, "gate: %v %v: %s holds %q\n", n.State, n.Step, n.Kind, n.Resource)
		}
	})
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Fprintf(out, "etcd: %s\n", s.address())
	if serve {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(io.Discard, os.Stdin)
		}()
		select {
		case <-ctx.Done():
		case <-ended:
		}
		return nil
	}
	return play(ctx, out, s.address(), keys)
}
