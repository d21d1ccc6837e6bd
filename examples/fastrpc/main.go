// Package main is a store of keys and values in memory, as memcached is one, with a gate, and its
// clients with credits, over fastrpc.
//
//	Method.Call ── credits ──▶ "get", "set", "delete" run where the connection is read: a microsecond each
//	                          "scan" runs on a goroutine, and waits its turn at the gate
//
// Run it with `go run ./examples/fastrpc`. After a few seconds it prints how many calls a second were
// answered and refused. `-serve :4000` only serves, and `-call
// host:4000` only calls.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/fastrpc"
)

const (
	objective = 50 * time.Millisecond
	callers   = 64
	keys      = 10_000
)

func main() {
	serve := flag.String("serve", "", "listen on this address and serve, without calling")
	call := flag.String("call", "", "call the store at this address, without serving one")
	seconds := flag.Int("seconds", 3, "how long to call, in seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *serve, *call, time.Duration(*seconds)*time.Second); err != nil {
		log.Fatal(err)
	}
}

// run serves, calls for a time, or does both on loopback.
func run(ctx context.Context, out io.Writer, listen, address string, d time.Duration) error {
	if address != "" {
		return load(ctx, out, address, d)
	}
	listener, err := net.Listen("tcp", cmp.Or(listen, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	gate, err := spillgate.New(objective)
	if err != nil {
		return err
	}
	defer gate.Close()
	server, err := newServer(gate)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if listen == "" {
		err = load(ctx, out, listener.Addr().String(), d)
	} else {
		fmt.Fprintln(out, "serving on", listener.Addr())
		<-ctx.Done()
	}
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(end))
	<-served
	return err
}

// shards is how many locks divide the keys, so that connections hardly wait for each other.
const shards = 64

// store holds the values.
type store struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu     sync.RWMutex
	values map[string][]byte
}

var errNotFound = &fastrpc.Error{Code: 404, Message: "there is no such key"}

// newServer returns a server of an empty store. Requests are a key, or the length of a key in 2
// bytes, a key and a value.
func newServer(gate *spillgate.Gate) (*fastrpc.Server, error) {
	server, err := fastrpc.NewServer(fastrpc.ServerConfig{Gate: gate})
	if err != nil {
		return nil, err
	}
	s := &store{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].values = map[string][]byte{}
	}
	server.HandleInline("get", s.get)
	server.HandleInline("set", s.set)
	server.HandleInline("delete", s.delete)
	server.Handle("scan", s.scan)
	return server, nil
}

func (s *store) of(key []byte) *shard { return &s.shards[maphash.Bytes(s.seed, key)%shards] }

func (s *store) get(_ context.Context, key, out []byte) ([]byte, error) {
	h := s.of(key)
	h.mu.RLock()
	defer h.mu.RUnlock()
	value, ok := h.values[string(key)]
	if !ok {
		return out, errNotFound
	}
	return append(out, value...), nil
}

func (s *store) set(_ context.Context, in, out []byte) ([]byte, error) {
	if len(in) < 2 || len(in)-2 < int(binary.BigEndian.Uint16(in)) {
		return out, &fastrpc.Error{Code: 400, Message: "expected the length of a key in 2 bytes, a key and a value"}
	}
	n := 2 + int(binary.BigEndian.Uint16(in))
	key, value := in[2:n], in[n:]
	h := s.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	// in is the server's again after this.
	if have, ok := h.values[string(key)]; ok && len(have) == len(value) {
		copy(have, value)
	} else {
		h.values[string(key)] = bytes.Clone(value)
	}
	return out, nil
}

func (s *store) delete(_ context.Context, key, out []byte) ([]byte, error) {
	h := s.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.values, string(key))
	return out, nil
}

// scan answers how many keys begin with a prefix.
func (s *store) scan(ctx context.Context, prefix, out []byte) ([]byte, error) {
	n := 0
	for i := range s.shards {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		h := &s.shards[i]
		h.mu.RLock()
		for key := range h.values {
			if bytes.HasPrefix([]byte(key), prefix) {
				n++
			}
		}
		h.mu.RUnlock()
	}
	return binary.BigEndian.AppendUint32(out, uint32(n)), nil
}

// results counts how calls ended.
type results struct{ answered, missed, refused, failed atomic.Int64 }

func (r *results) add(err error) {
	var refusal *spillgate.Refusal
	var own *fastrpc.Error
	switch {
	case err == nil:
		r.answered.Add(1)
	case errors.As(err, &refusal):
		r.refused.Add(1)
	case errors.As(err, &own) && own.Code == errNotFound.Code:
		r.missed.Add(1)
	default:
		r.failed.Add(1)
	}
}

// load calls a store for a time: nine gets to a set, of values of 100 bytes.
func load(ctx context.Context, out io.Writer, address string, d time.Duration) error {
	client, err := fastrpc.Dial(ctx, fastrpc.ClientConfig{}, address)
	if err != nil {
		return err
	}
	defer client.Close()
	get, set := client.Method("get"), client.Method("set")
	var r results
	var all sync.WaitGroup
	begun := time.Now()
	for range callers {
		all.Go(func() {
			var room [256]byte
			request, value := make([]byte, 0, 256), make([]byte, 100)
			for time.Since(begun) < d && ctx.Err() == nil {
				key := binary.BigEndian.AppendUint32([]byte("key-"), rand.Uint32N(keys))
				var err error
				if rand.IntN(10) == 0 {
					request = binary.BigEndian.AppendUint16(request[:0], uint16(len(key)))
					_, err = set.Call(ctx, append(append(request, key...), value...), room[:0])
				} else {
					_, err = get.Call(ctx, key, room[:0])
				}
				r.add(err)
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	_, err = client.Method("scan").Call(ctx, []byte("key-"), nil)
	fmt.Fprintf(out, "answered %.0f/s, not found %.0f/s, refused %.0f/s, failed %.0f/s\n", float64(r.answered.Load())/took,
		float64(r.missed.Load())/took, float64(r.refused.Load())/took, float64(r.failed.Load())/took)
	return err
}
