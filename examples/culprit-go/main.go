// Package main is a shop whose orders write a table that its report reads: one
// report keeps every order waiting. Spillgate's engine finds it and cancels it
// through its context.
//
//	GET /order   locks the table for a millisecond
//	GET /report  locks the table as a reader and walks it, for minutes
//
// Run it with `go run ./examples/culprit-go /dev/shm/shop`, and an engine on the
// same task file. What tracing takes is Begin and End for each request, and
// tracer.RWMutex for sync.RWMutex. The same shop in C and in Java is in the
// directories beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/spillgate/spillgate/tracer"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: culprit-go taskfile")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, taskfile string, out io.Writer) error {
	tr, err := tracer.Open(tracer.Config{Path: taskfile})
	if err != nil {
		return err
	}
	defer tr.Close()
	table := tr.NewRWMutex("orders")
	mux := http.NewServeMux()
	mux.Handle("GET /order", traced(tr, "GET /order", func(ctx context.Context) error { return order(ctx, table) }))
	mux.Handle("GET /report", traced(tr, "GET /report", func(ctx context.Context) error { return report(ctx, table) }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Fprintf(out, "listening on http://%v\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// traced makes a handler whose requests are tasks of one kind.
func traced(tr *tracer.Tracer, name string, do func(context.Context) error) http.Handler {
	kind := tr.Kind(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, task := tr.Begin(r.Context(), tracer.Info{Kind: kind})
		defer task.End()
		switch err := do(ctx); {
		case errors.Is(err, tracer.ErrCancelled):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			fmt.Fprintln(w, "done")
		}
	})
}

// order writes one row.
func order(ctx context.Context, table *tracer.RWMutex) error {
	if err := table.Lock(ctx); err != nil {
		return err
	}
	defer table.Unlock(ctx)
	time.Sleep(time.Millisecond)
	return nil
}

// report reads every row.
func report(ctx context.Context, table *tracer.RWMutex) error {
	if err := table.RLock(ctx); err != nil {
		return err
	}
	defer table.RUnlock(ctx)
	const rows = 100_000
	for row := range rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		time.Sleep(time.Millisecond)
		tracer.From(ctx).SetProgress(uint64(row), rows)
	}
	return nil
}
