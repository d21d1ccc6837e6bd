package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// How many put keys, and how many count them.
const writers, counters = 64, 4

// play fills etcd, then has writers put keys and, two seconds later, others count them
// all.
func play(ctx context.Context, out io.Writer, address string, keys int) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := fill(ctx, c, keys); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	var puts, counts atomic.Int64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := c.Put(ctx, fmt.Sprintf("order/%d", i%1000), "x"); err == nil {
					puts.Add(1)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	for range counters {
		all.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
				fmt.Fprintln(out, "counter: begins")
				count(ctx, out, c, &counts)
			}
		})
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 15 {
		was := puts.Load()
		<-tick.C
		fmt.Fprintf(out, "writers: %d puts in half a second\n", puts.Load()-was)
	}
	cancel()
	all.Wait()
	fmt.Fprintf(out, "counter: counted %d times\n", counts.Load())
	return nil
}

// count counts all keys until ctx ends, whatever it is told. etcd's client sends what was
// refused again by itself, and returns what was cancelled.
func count(ctx context.Context, out io.Writer, c *clientv3.Client, counts *atomic.Int64) {
	told := codes.OK
	for ctx.Err() == nil {
		_, err := c.Get(ctx, "bulk/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil {
			counts.Add(1)
			continue
		}
		if code := status.Code(err); code != told && ctx.Err() == nil {
			told = code
			fmt.Fprintf(out, "counter: %v\n", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// fill puts keys, 10,000 in one transaction.
func fill(ctx context.Context, c *clientv3.Client, keys int) error {
	const most = 10_000
	for from := 0; from < keys; from += most {
		ops := make([]clientv3.Op, 0, most)
		for i := from; i < min(from+most, keys); i++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("bulk/%08d", i), "x"))
		}
		if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	return nil
}
