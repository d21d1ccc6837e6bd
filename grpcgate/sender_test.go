package grpcgate

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/await"
)

// A plain client is told from others by its connection: where the queue is full, a request
// of the client that had most makes room for one of a client that had nothing.
func TestPlainClientsAreToldApart(t *testing.T) {
	const queue, before = 4, 50
	cfg := fixed(1)
	cfg.QueueLimit, cfg.NoCredit, cfg.NoAQM = queue, true, true
	gate := newGate(t, cfg)
	release := make(chan struct{})
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		if req == "wait" {
			<-release
		}
		return req, nil
	}}, nil)
	many, one := dial(t, s.addr), dial(t, s.addr)
	ctx := within(t)
	for range before {
		if _, err := call1(ctx, many, "x"); err != nil {
			t.Fatal(err)
		}
	}
	call := func(conn *grpc.ClientConn, ends chan<- error) {
		go func() { _, err := call1(ctx, conn, "wait"); ends <- err }()
	}
	ends, its := make(chan error, queue+1), make(chan error, 1)
	for i := range queue + 1 {
		call(many, ends)
		eventually(t, "it runs or waits", func() bool { st := gate.Stats(); return st.Running+st.Waiting == i+1 })
	}
	call(one, its)
	select {
	case err := <-ends: // nobody was let, so it was refused
		if err == nil {
			t.Error("a call ended before it was let")
		}
	case err := <-its:
		t.Fatalf("the client that had nothing: %v", err)
	}
	close(release)
	if err := await.Value(t, its, "the call to end"); err != nil {
		t.Errorf("the client that had nothing: %v", err)
	}
	for range queue {
		if err := await.Value(t, ends, "a call to end"); err != nil {
			t.Error(err)
		}
	}
}
