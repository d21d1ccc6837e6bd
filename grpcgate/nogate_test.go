package grpcgate

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A gate that was not made is said where it is used first.
func TestNoGate(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "spillgate.New") {
			t.Errorf("a nil gate panics with %q, expected how to make one", said)
		}
	}()
	ServerOptions(nil)
}

// A server that was made without a gate says once that its clients ask for credits in vain.
func TestServerWithoutOptions(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(was)
	service := new(ungated)
	for range 2 {
		if err := serveControl(service, bareStream{ctx: t.Context()}); status.Code(err) != codes.Unimplemented {
			t.Fatalf("the control stream of a server without a gate: %v", err)
		}
	}
	if n := strings.Count(log.String(), "grpcgate.ServerOptions"); n != 1 {
		t.Errorf("said %d times, expected once:\n%s", n, &log)
	}
}

// bareStream is a stream of a connection that no gate knows.
type bareStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s bareStream) Context() context.Context { return s.ctx }
