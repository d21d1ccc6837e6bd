package proxy

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/reread"
	"github.com/spillgate/spillgate/telemetry"
)

// Run serves until ctx ends, then drains: health checks fail for the time of
// Drain.Notice, then new requests are refused, those inside finish within
// Drain.Timeout, and what is left is cut off. It returns nil after a drain, and
// the error of a listener that failed otherwise. A proxy runs once.
func (p *Proxy) Run(ctx context.Context) error {
	if err := p.Listen(); err != nil {
		_ = p.Close()
		return err
	}
	cfg := p.state.Load().cfg
	p.resolve(ctx)
	servers, err := p.servers(cfg)
	if err != nil {
		_ = p.Close()
		return err
	}
	r := &started{p: p, failed: make(chan error, len(servers)+len(p.exits)+1)}
	r.servers(cfg, servers)
	admin := r.admin()
	watched, unwatch := context.WithCancel(ctx)
	r.wg.Go(func() { reread.Watch(watched, p.lookAtKeys) })
	r.wg.Go(func() { p.watchNames(watched) })
	r.wg.Go(func() { p.watchGuard(watched) })
	p.mu.Lock()
	p.phase.CompareAndSwap(starting, serving)
	for _, u := range p.state.Load().upstreams {
		u.begin()
	}
	front, adminListener := p.front, p.admin
	p.mu.Unlock()
	p.logStart(cfg, front, adminListener)

	select {
	case <-ctx.Done():
		p.drain(servers)
	case err = <-r.failed:
		p.log.Error("a listener failed", "error", err)
		p.phase.Store(draining)
	}
	for _, s := range append(servers[:len(servers):len(servers)], r.out...) {
		s.Close()
	}
	admin.Close()
	r.door.close()
	unwatch()
	p.stop()
	r.wg.Wait()
	for p.active.Load()+p.outside.Load() > 0 { // their contexts have ended
		time.Sleep(time.Millisecond)
	}
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	p.log.Info("stopped")
	return err
}

// started is what Run has started.
type started struct {
	p      *Proxy
	wg     sync.WaitGroup
	failed chan error
	out    []*http.Server // of the upstreams' own calls
	door   *doorman
}

// serve has s serve l.
func (r *started) serve(s *http.Server, l net.Listener) {
	r.wg.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.failed <- err
		}
	})
}

// servers starts those of clients, and those of the upstreams' own calls.
func (r *started) servers(cfg Config, servers []*http.Server) {
	p := r.p
	most := p.connections(cfg.Limits.Connections, descriptors())
	places := p.newRoom(most)
	places.clients = p.newPerClient(cfg.Limits)
	places.door = newDoorman()
	places.writes = cfg.Limits.SendTimeout
	r.door = places.door
	p.places.Store(places)
	// The servers' own calls have places of their own: if clients could take them
	// all, requests that wait for others would never end.
	placesOut := p.newRoom(most)
	placesOut.writes = cfg.Limits.SendTimeout
	p.mu.Lock()
	front, egress := p.front, p.egress
	p.mu.Unlock()
	for i, x := range p.exits {
		s := p.server(cfg, x)
		r.out = append(r.out, s)
		r.serve(s, placesOut.in(egress[i], nil))
	}
	for i, s := range servers {
		behind := p.behind(front[i], cfg.Listen[i].Balancers, cfg.Limits.HeaderTimeout)
		if s.TLSConfig != nil {
			r.serve(s, secured(places.in(behind, nil), s.TLSConfig, cfg.Limits.HeaderTimeout, s.ErrorLog))
			continue
		}
		park := newParking(p.parkAfter, &p.parked)
		r.serve(s, places.in(behind, park))
		r.serve(s, park)
		r.wg.Go(func() {
			<-park.done
			park.wg.Wait()
		})
	}
}

// admin starts the server of the admin address, if there is one.
func (r *started) admin() *http.Server {
	p := r.p
	s := telemetry.AdminServer(p.Admin(), p.errorLog())
	p.mu.Lock()
	l := p.admin
	p.mu.Unlock()
	if l != nil {
		r.serve(s, telemetry.AdminListener(l))
	}
	return s
}

// servers returns a server for each listener.
func (p *Proxy) servers(cfg Config) ([]*http.Server, error) {
	var all []*http.Server
	for _, l := range cfg.Listen {
		tlsConfig, err := p.serverTLS(l)
		if err != nil {
			return nil, err
		}
		s := p.server(cfg, p)
		s.TLSConfig = tlsConfig
		s.DisableGeneralOptionsHandler = true // see lastHop
		s.Protocols.SetHTTP2(true)
		s.Protocols.SetUnencryptedHTTP2(tlsConfig == nil)
		if before := s.ConnContext; l.Trusted {
			s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(before(ctx, c), trustedKey{}, true)
			}
		}
		httpgate.Track(s)
		all = append(all, s)
	}
	return all, nil
}

// frameSize is the largest frame of HTTP/2 that is taken, in bytes, the least that there is. A connection keeps the memory for
// the largest that it had for as long as it lasts, by default up to 1 MiB, and needs no more than a frame's header to get it.
const frameSize = 16 << 10

// server returns what serves HTTP/1.1 and cleartext HTTP/2 within the limits.
func (p *Proxy) server(cfg Config, h http.Handler) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: cfg.Limits.HeaderTimeout,
		IdleTimeout:       cfg.Limits.IdleTimeout,
		MaxHeaderBytes:    cfg.Limits.Header,
		ErrorLog:          p.errorLog(),
		BaseContext:       func(net.Listener) context.Context { return p.stopped },
		ConnContext:       withPlace,
		ConnState:         turned,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: cfg.Limits.Streams, MaxReadFrameSize: frameSize, SendPingTimeout: cfg.Limits.IdleTimeout, PingTimeout: pingAfter},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

func (p *Proxy) logStart(cfg Config, front []net.Listener, admin net.Listener) {
	var listen, upstreams []string
	for _, l := range front {
		listen = append(listen, l.Addr().String())
	}
	for _, g := range cfg.groups() {
		for _, u := range g.cfg.Upstreams {
			upstreams = append(upstreams, redact(u.URL))
		}
	}
	attrs := []any{slog.String("mode", cfg.Mode.String()), slog.Duration("slo", cfg.Objective), slog.String("listen", strings.Join(listen, " ")),
		slog.String("upstreams", strings.Join(upstreams, " ")), slog.String("exempt", strings.Join(cfg.Exempt, " "))}
	if admin != nil {
		attrs = append(attrs, slog.String("admin", admin.Addr().String()))
	}
	p.log.Info("serving", attrs...)
}

// errorLog takes what net/http has to say, which is about single connections
// and mostly noise that strangers make.
func (p *Proxy) errorLog() *log.Logger { return log.New(debugWriter{p.log}, "", 0) }

type debugWriter struct{ log *slog.Logger }

func (d debugWriter) Write(b []byte) (int, error) {
	d.log.Debug(strings.TrimSpace(string(b)))
	return len(b), nil
}
