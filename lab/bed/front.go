package bed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/proxy"
)

// beProxy is the proxy in front of a replica until ctx ends: one without control in front
// of services without a gate, so that the way to all of them is the same, and for none/proxy.
func (o *order) beProxy(ctx context.Context, p *plan, pol policy) error {
	s := p.services[o.Service]
	if pol.peer == nil && (s.Ungated || pol.kind == nothing) {
		return o.bePlainProxy(ctx)
	}
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
	return o.beLookedAt(ctx, front.Run, func(at time.Duration) Look {
		l := o.lookAt(front, at)
		if ended := ctx.Err() != nil; ended && seen != nil && s.Workers > 0 {
			l.Law = seen.replay(s.Workers)
		}
		return l
	})
}

// beLookedAt runs something until ctx ends, and prints looks at it.
func (o *order) beLookedAt(ctx context.Context, run func(context.Context) error, see func(at time.Duration) Look) error {
	ctx, stop := context.WithCancel(ctx)
	looks := make(chan error, 1)
	go func() {
		defer stop()
		begin, err := o.awaitBegin(ctx)
		if err == nil {
			err = everyBin(ctx, begin, see)
		}
		looks <- err
	}()
	err := run(ctx)
	stop()
	return errors.Join(err, <-looks)
}

// bePlainProxy is a proxy without control, of the standard library.
func (o *order) bePlainProxy(ctx context.Context) error {
	l, err := listen(o.Listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	to := &url.URL{Scheme: "http", Host: o.Upstream}
	server := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to); r.SetXForwarded() },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		BufferPool: new(buffers),
	}}
	return o.beLookedAt(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func(at time.Duration) Look {
		return Look{Service: o.Service, Replica: o.Replica, Proxy: true, At: at, Used: machine.Own()}
	})
}

// buffers is the pool that a reverse proxy copies bodies through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }

// lookAt is what the proxy says of the gate in front of its only upstream.
func (o *order) lookAt(front *proxy.Proxy, at time.Duration) Look {
	u := front.Status().Upstreams[0]
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	l := Look{Service: o.Service, Replica: o.Replica, Proxy: true, At: at, Used: machine.Own(), Shed: u.Refused,
		Limit: u.Limit, Running: u.Running, Waiting: u.Waiting, Delay: seconds(u.Delay), Takes: seconds(u.Service),
		Clients: u.Clients, Credits: u.Credits, Issued: u.Issued}
	if u.Share != nil {
		l.Weight, l.Class = u.Share.Weight, u.Share.Admitted
	}
	return l
}
