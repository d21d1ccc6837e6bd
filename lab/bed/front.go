package bed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/spillgate/spillgate/lab/arena"
	"github.com/spillgate/spillgate/proxy"
)

// beProxy is the proxy in front of a replica until ctx ends.
func (o *order) beProxy(ctx context.Context, p *plan, pol policy) error {
	s := p.services[o.Service]
	cfg, log, seen := proxy.Config{Objective: s.Objective}, slog.New(slog.DiscardHandler), (*visits)(nil)
	if pol.peer != nil {
		cfg = pol.peer.Proxy(p.World, s)
		seen = new(visits)
		log = slog.New(seen)
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	cfg.Listen = []proxy.Listener{{Address: o.Listen}}
	cfg.Upstreams = []proxy.Upstream{{URL: "http://" + o.Upstream}}
	cfg.Drain = proxy.Drain{Timeout: time.Millisecond} // the end of a run is no drain
	for exit, to := range o.Egress {
		cfg.Egress = append(cfg.Egress, proxy.Egress{Address: exit, URL: "http://" + to})
		cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} // the other proxies
	}
	front, err := proxy.New(cfg, log)
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
			err = everyBin(ctx, begin, func(at time.Duration) Look {
				l := o.lookAt(front, at)
				if ended := ctx.Err() != nil; ended && seen != nil && s.Workers > 0 {
					l.Law = seen.replay(s.Workers)
				}
				return l
			})
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
	l := Look{Service: o.Service, Replica: o.Replica, At: at, Used: arena.Used(os.Getpid()), Shed: u.Refused,
		Limit: u.Limit, Running: u.Running, Waiting: u.Waiting, Delay: seconds(u.Delay), Takes: seconds(u.Service),
		Clients: u.Clients, Credits: u.Credits, Issued: u.Issued}
	if u.Share != nil {
		l.Weight, l.Class = u.Share.Weight, u.Share.Admitted
	}
	return l
}
