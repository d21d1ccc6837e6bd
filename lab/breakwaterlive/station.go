package breakwaterlive

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/fastrpc"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

const (
	stationRole proc.Role[stationOrder] = "SPILLGATE_LAB_FAST_STATION"
	crowdRole   proc.Role[crowdOrder]   = "SPILLGATE_LAB_FAST_CROWD"
)

// Child does a child's work and ends the process, if this process is one that an
// experiment started, and returns otherwise.
func Child() {
	stationRole.Play("breakwaterlive: station", stationOrder.obey)
	crowdRole.Play("breakwaterlive: crowd", crowdOrder.obey)
}

// stationOrder is the task of a station.
type stationOrder struct {
	Policy string
	Tuning tuning
	Seed   uint64
}

// longestInline is the mean service up to which a station works where the connection is
// read; longer work has goroutines. The documentation of fastrpc advises the same.
const longestInline = 20 * time.Microsecond

// obey serves until the process is told to end.
func (o stationOrder) obey() error {
	gate, level, err := o.Tuning.gate(o.Policy, o.Seed)
	if err != nil {
		return err
	}
	if gate != nil {
		defer gate.Close()
	}
	server, err := fastrpc.NewServer(fastrpc.ServerConfig{Gate: gate, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	handle := func(_ context.Context, in, out []byte) ([]byte, error) {
		if len(in) != 8 {
			return out, &fastrpc.Error{Code: 400, Message: "expected 8 bytes, nanoseconds"}
		}
		spin(time.Duration(binary.BigEndian.Uint64(in)))
		if level != nil {
			out = append(out, byte(level.level.Load()))
		}
		return out, nil
	}
	if o.Tuning.Mean <= longestInline {
		server.HandleInline("spin", handle)
	} else {
		server.Handle("spin", handle)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, server.Close)
	fmt.Println("listening on", l.Addr())
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// spin keeps the processor busy.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
		continue
	}
}
