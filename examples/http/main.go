// Package main is a service with a gate, and a client with credits, in net/http.
// A program adds two values and one call.
//
//	http.Client ── httpgate.Transport ──▶ httpgate.Handler ── gate ──▶ handler, 4 workers of 10 ms
//
// Run it with `go run ./examples/http`. Twenty callers want far more than the
// four workers can do. For a few seconds it prints how many answers a second came
// within the objective of 100 ms and how many callers were refused.
// Beside it, spillgate.yaml is the proxy's configuration, every key explained.
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/httpgate"
)

const objective = 100 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves and calls until ctx ends.
func run(ctx context.Context, out io.Writer) error {
	// The server: a gate in front of it. Only the objective is needed.
	gate := spillgate.MustNew(objective)
	defer gate.Close()
	server := &http.Server{Handler: work()}
	httpgate.Install(gate, server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	// The client: a transport around the transport.
	client := &http.Client{Transport: httpgate.Transport(nil)}
	url := "http://" + listener.Addr().String()

	var inTime, late, refused atomic.Int64
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			for ctx.Err() == nil {
				switch ok, err := call(ctx, client, url); {
				case err != nil:
					refused.Add(1)
					time.Sleep(objective / 10)
				case ok:
					inTime.Add(1)
				default:
					late.Add(1)
				}
			}
		})
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s := gate.Stats()
			fmt.Fprintf(out, "in time %d/s, late %d, turned back %d; slots %d, waiting %d, credits issued %d\n",
				inTime.Swap(0), late.Swap(0), refused.Swap(0), s.Limit, s.Waiting, s.Issued)
		}
	}
	callers.Wait()
	client.CloseIdleConnections()
	server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// work is a handler whose capacity no setting names: four requests at a time.
func work() http.Handler {
	workers := make(chan struct{}, 4)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		workers <- struct{}{}
		time.Sleep(10 * time.Millisecond)
		<-workers
		fmt.Fprintln(w, "done")
	})
}

// call reports whether the answer came within the objective; a refusal, by the
// server or by the wallet before anything was sent, is an error.
func call(ctx context.Context, client *http.Client, url string) (inTime bool, err error) {
	// The budget travels with the request, so no service works on a late one.
	ctx, cancel := context.WithTimeout(ctx, objective)
	defer cancel()
	begin := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() // holds the credit until it is closed
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("refused: %s, retry after %s s", resp.Status, resp.Header.Get("Retry-After"))
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return time.Since(begin) <= objective, err
}
