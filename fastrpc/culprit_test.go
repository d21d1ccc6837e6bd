package fastrpc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/tracer"
)

// A call that keeps a lock from all others is cancelled through its context, and its caller gets
// the token with which it is let in again.
func TestACulpritIsCancelled(t *testing.T) {
	cfg := spillgate.Config{}
	cfg.Objective = 100 * time.Millisecond
	cfg.Culprit.Mode = spillgate.EnforceCulprits
	gate := newGate(t, cfg)
	tr, err := tracer.Of(gate, tracer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	lock := tr.NewMutex("store")
	_, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		s.Handle("read", func(ctx context.Context, _, _ []byte) ([]byte, error) {
			if err := lock.Lock(ctx); err != nil {
				return nil, err
			}
			defer lock.Unlock(ctx)
			time.Sleep(time.Millisecond)
			return nil, nil
		})
		s.Handle("report", func(ctx context.Context, _, _ []byte) ([]byte, error) {
			if err := lock.Lock(ctx); err != nil {
				return nil, err
			}
			defer lock.Unlock(ctx)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	})
	t.Cleanup(func() { // the tracer closes after its gate
		_ = gate.Close()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	c := dial(t, ClientConfig{}, address)
	read, report := c.Method("read"), c.Method("report")
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	var reads atomic.Int32
	for range 8 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := read.Call(ctx, nil, nil); err == nil {
					reads.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	defer readers.Wait()
	defer stop()
	eventually(t, "reads", func() bool { return reads.Load() > 200 })
	eventually(t, "a culprit with its token", func() bool {
		_, err := report.Call(within(t), nil, nil)
		var refusal *spillgate.Refusal
		return errors.As(err, &refusal) && refusal.Reason.String() == "culprit" && refusal.Resend.Token.String() != ""
	})
	before := reads.Load()
	eventually(t, "the others went on", func() bool { return reads.Load() > before })
}
