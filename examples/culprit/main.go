// Package main is a service in which one request seizes a lock that all others need, and a
// gate that finds that request. Beside the gate, a program adds a mode, a tracer, and the
// tracer's mutex in place of one of package sync.
//
//	readers ──▶ gate ──▶ lock, read, unlock
//	report  ──▶ gate ──▶ lock ─ ─ ─ (for as long as it is let) ─ ─ ─ unlock
//
// Run it with `go run ./examples/culprit`. Eight readers send requests in a loop; after a
// second a report takes the lock. Without control no read succeeds until the report ends.
// Here the gate names the report, cancels it through its context, and tells it how to come
// again.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/tracer"
)

const objective = 100 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves, reads and reports, until the report has been answered or ctx ends.
func run(ctx context.Context, out io.Writer) error {
	// The gate: it cancels the culprit. Without Mode it would only name it.
	cfg := spillgate.Config{}
	cfg.Objective = objective
	cfg.Culprit.Mode = spillgate.EnforceCulprits
	cfg.Culprit.Notify = func(n spillgate.CulpritNotice) {
		if n.Kind != "" {
			fmt.Fprintf(out, "gate: %v: %s has held %q for %v\n", n.State, n.Kind, n.Resource, n.Age.Round(time.Millisecond))
		}
	}
	gate, err := spillgate.NewWith(cfg)
	if err != nil {
		return err
	}
	// The tracer: the gate learns who holds what. A nil one works, and traces nothing.
	tr, err := tracer.Of(gate, tracer.Config{})
	if err != nil {
		fmt.Fprintf(out, "no tracer: %v\n", err)
	}
	defer tr.Close()
	defer gate.Close()

	server := &http.Server{Handler: httpgate.Handler(gate, store(tr))}
	httpgate.Track(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-served
	}()

	url := "http://" + listener.Addr().String()
	client := &http.Client{Transport: httpgate.Transport(nil)}
	defer client.CloseIdleConnections()
	var reads atomic.Int64
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for range 8 {
		readers.Go(func() {
			for reading.Err() == nil {
				if status, _, err := get(reading, client, url+"/read"); err == nil && status == http.StatusOK {
					reads.Add(1)
				}
				time.Sleep(objective / 4)
			}
		})
	}
	time.Sleep(time.Second)
	fmt.Fprintf(out, "%d reads in the first second; now the report\n", reads.Load())
	if err := report(ctx, out, client, url+"/report"); err != nil {
		return err
	}
	before := reads.Load()
	time.Sleep(time.Second)
	fmt.Fprintf(out, "%d reads in the last second\n", reads.Load()-before)
	return nil
}

// report asks for the report, and again if it is cancelled.
func report(ctx context.Context, out io.Writer, client *http.Client, url string) error {
	began := time.Now()
	for {
		status, header, err := get(ctx, client, url)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err == nil && status == http.StatusOK:
			fmt.Fprintf(out, "report: answered after %v\n", time.Since(began).Round(100*time.Millisecond))
			return nil
		}
		// Reports may be made twice, so this one comes again, with its token.
		if again, after, ok := httpgate.Resend(ctx, header); ok {
			fmt.Fprintf(out, "report: cancelled after %v, comes again in %v\n", time.Since(began).Round(time.Millisecond), after)
			ctx = again
			time.Sleep(after)
			continue
		}
		time.Sleep(objective)
	}
}

// store serves reads and reports, which need one lock.
func store(tr *tracer.Tracer) http.Handler {
	lock := tr.NewMutex("store")
	var reports atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if err := lock.Lock(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer lock.Unlock(r.Context())
		time.Sleep(time.Millisecond)
	})
	mux.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		if err := lock.Lock(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer lock.Unlock(r.Context())
		length := 10 * time.Second
		if reports.Add(1) > 1 {
			length = objective / 2 // it has less left to do
		}
		select {
		case <-time.After(length):
			fmt.Fprintln(w, "the report")
		case <-r.Context().Done():
			http.Error(w, context.Cause(r.Context()).Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// get makes one request.
func get(ctx context.Context, client *http.Client, url string) (status int, header http.Header, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header, err
}
