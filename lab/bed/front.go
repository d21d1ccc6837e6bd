package bed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/proxy"
)

// beProxy is the proxy in front of a replica until ctx ends.
func (o *order) beProxy(ctx context.Context, p *plan) error {
	front, err := proxy.New(proxy.Config{
		Objective: p.services[o.Service].Objective,
		Listen:    []proxy.Listener{{Address: "127.0.0.1:0"}},
		Upstreams: []proxy.Upstream{{URL: "http://" + o.Upstream}},
		// The end of a run is no drain.
		Drain: proxy.Drain{Timeout: time.Millisecond},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := front.Listen(); err != nil {
		return err
	}
	addrs, _ := front.Addrs()
	fmt.Println("listening on", addrs[0])
	ctx, stop := context.WithCancel(ctx)
	looks := make(chan error, 1)
	go func() {
		defer stop()
		begin, err := o.awaitBegin(ctx)
		if err == nil {
			err = everyBin(ctx, begin, func(at time.Duration) Look { return o.lookAt(front, at) })
		}
		looks <- err
	}()
	err = front.Run(ctx)
	stop()
	return errors.Join(err, <-looks)
}

// lookAt is what the proxy says of the gate in front of its only upstream.
func (o *order) lookAt(front *proxy.Proxy, at time.Duration) Look {
	u := front.Status().Upstreams[0]
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return Look{Service: o.Service, Replica: o.Replica, At: at, Used: machine.Used(os.Getpid()), Shed: u.Refused,
		Limit: u.Limit, Running: u.Running, Waiting: u.Waiting, Delay: seconds(u.Delay), Takes: seconds(u.Service),
		Clients: u.Clients, Credits: u.Credits, Issued: u.Issued}
}
