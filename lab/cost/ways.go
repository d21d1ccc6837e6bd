package cost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

// way is how requests reach one of the servers.
type way struct {
	Web    bool   `json:"web,omitempty"`
	Wallet bool   `json:"wallet,omitempty"` // the client is Spillgate's, as README has it
	Addr   string `json:"addr"`
	Pid    int    `json:"pid"`    // of the server
	Flight int    `json:"flight"` // requests at once
}

// batch is what one batch of requests took.
type batch struct {
	Calls  int           `json:"calls"`
	Took   time.Duration `json:"took"`
	Client time.Duration `json:"client"` // processor time
	Server time.Duration `json:"server"` // the same, to a tick
	Failed int           `json:"failed"`
}

// add adds another batch.
func (b *batch) add(o batch) {
	b.Calls, b.Failed = b.Calls+o.Calls, b.Failed+o.Failed
	b.Took, b.Client, b.Server = b.Took+o.Took, b.Client+o.Client, b.Server+o.Server
}

// rate is how many calls were answered in a second.
func (b *batch) rate() float64 { return float64(b.Calls) / b.Took.Seconds() }

// call sends batches of requests in each way, in turn, and answers with all batches of each.
func (o order) call() error {
	fmt.Println("listening on nothing")
	calls := make([]func() error, len(o.Ways))
	for i, w := range o.Ways {
		call, err := w.dial()
		if err != nil {
			return err
		}
		calls[i] = call
	}
	found := make([][]batch, len(o.Ways))
	for round := range o.Rounds + warmRounds {
		for k := range o.Ways {
			// Each way comes after each other one as often, so that none always has the
			// collection of garbage that another one made.
			i := (k + round) % len(o.Ways)
			b := o.Ways[i].batch(calls[i], o.Batch)
			if round >= warmRounds {
				found[i] = append(found[i], b)
			}
		}
	}
	return proc.Answer(found)
}

// warmRounds do not count: connections, stacks and windows grow.
const warmRounds = 2

// batch calls for some time.
func (w *way) batch(call func() error, length time.Duration) batch {
	var b batch
	var mu sync.Mutex
	var all sync.WaitGroup
	server, client, start := machine.Used(w.Pid), machine.Own(), time.Now()
	for range w.Flight {
		all.Go(func() {
			calls, failed := 0, 0
			for time.Since(start) < length {
				if err := call(); err != nil {
					failed++
				} else {
					calls++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			b.Calls, b.Failed = b.Calls+calls, b.Failed+failed
		})
	}
	all.Wait()
	b.Took, b.Client, b.Server = time.Since(start), machine.Own()-client, machine.Used(w.Pid)-server
	return b
}

// dial returns what makes one call.
func (w *way) dial() (func() error, error) {
	if w.Web {
		return w.dialWeb(), nil
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if w.Wallet {
		options = append(options, grpcgate.DialOptions()...)
	}
	conn, err := grpc.NewClient("passthrough:///"+w.Addr, options...)
	if err != nil {
		return nil, err
	}
	in := wrapperspb.Bytes(make([]byte, echoSize))
	return func() error {
		return conn.Invoke(context.Background(), echoMethod, in, new(wrapperspb.BytesValue))
	}, nil
}

func (w *way) dialWeb() func() error {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = w.Flight
	client := &http.Client{Transport: base}
	if w.Wallet {
		client.Transport = httpgate.Transport(base)
	}
	url := "http://" + w.Addr + "/echo"
	return func() error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d, expected 200", resp.StatusCode)
		}
		return err
	}
}
