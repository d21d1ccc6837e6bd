package grpcgate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/harness/contest"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// BenchmarkUnary compares calls of a gated client at a gated server with those
// of a plain client at a plain server: time of server and client together.
func BenchmarkUnary(b *testing.B) {
	plainConn := dial(b, serve(b, nil, &echo{}, nil).addr)
	gatedConn, _ := dialGated(b, serve(b, newGate(b, admission.Config{}), &echo{}, nil).addr, nil)
	ctx := context.Background()
	contest.Run(b,
		func() error { _, err := call1(ctx, plainConn, "x"); return err },
		func() error { _, err := call1(ctx, gatedConn, "x"); return err })
}

// BenchmarkRefusal compares being refused with being served by a plain server.
func BenchmarkRefusal(b *testing.B) {
	plainConn := dial(b, serve(b, nil, &echo{}, nil).addr)
	gate := newGate(b, admission.Config{})
	s := serve(b, gate, &echo{}, nil)
	gate.Drain()
	for _, client := range []string{"plain", "credit"} {
		b.Run(client, func(b *testing.B) {
			conn := dial(b, s.addr)
			ctx := context.Background()
			if client == "credit" {
				ctx = withTags(ctx, wire.Tags{Credits: true})
			}
			contest.Run(b,
				func() error { _, err := call1(context.Background(), plainConn, "x"); return err },
				func() error {
					if _, err := call1(ctx, conn, "x"); err == nil {
						return fmt.Errorf("expected a refusal")
					}
					return nil
				})
		})
	}
}

// BenchmarkRefusalStatus is the part of a refusal that makes its status.
func BenchmarkRefusalStatus(b *testing.B) {
	r := &live.Refusal{Reason: work.Delay, Pushback: 12 * time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		if refusalError(r) == nil {
			b.Fatal("no error")
		}
	}
}
