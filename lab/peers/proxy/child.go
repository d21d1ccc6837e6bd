package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"time"

	"github.com/spillgate/spillgate/internal/harness/capacity"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/harness/service"
)

const role = proc.Role[order]("SPILLGATE_PROXY_LAB")

// order is what a child is to do.
type order struct {
	// Role is upstream, proxy, capacity or load.
	Role string
	// URL is where to send requests, Patience how long to wait for an answer.
	URL      string
	Patience time.Duration
	// Profile is the load, From where the part of the run begins that counts, and
	// Capacity what goodput is compared with.
	Profile  openloop.Profile
	From     time.Duration
	Capacity float64
	Seed     uint64
}

// child does a child's work and ends the process, if this is one.
func child() { role.Play("proxy", order.obey) }

func (o order) obey() error {
	var m measured
	var err error
	switch o.Role {
	case "upstream":
		return o.serve()
	case "proxy":
		return o.forward()
	case "capacity":
		m, err = o.findCapacity()
	case "load":
		m, err = o.load()
	default:
		err = fmt.Errorf("no role %q", o.Role)
	}
	if err != nil {
		return err
	}
	return proc.Answer(m)
}

// serve is the upstream: like most, it does not know when its caller gave up.
func (o order) serve() error {
	station, err := service.New(service.Config{Workers: slots, Mean: mean, Seed: o.Seed})
	if err != nil {
		return err
	}
	return listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := station.Do(context.WithoutCancel(r.Context())); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
}

// forward is the plain reverse proxy, with as many idle connections as it needs:
// the default of two would have it connect for most requests.
func (o order) forward() error {
	target, err := url.Parse(o.URL)
	if err != nil {
		return err
	}
	return listen(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport:    &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true},
		ErrorLog:     log.New(io.Discard, "", 0), // a line for every client that left
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
}

func listen(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	return http.Serve(l, h)
}

// sender returns what performs a request as any client would. Nobody but the client
// knows how long it waits.
func (o order) sender() openloop.Send {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, MaxIdleConns: 2000, DisableCompression: true}}
	return func(ctx context.Context, _ int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(ctx, intended.Add(o.Patience))
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
		if err != nil {
			return measure.Outcome{Kind: measure.Failed, Reason: "request"}
		}
		resp, err := client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return measure.Outcome{Kind: measure.TimedOut}
		case err != nil:
			return measure.Outcome{Kind: measure.Failed, Reason: "transport"}
		case resp.StatusCode == http.StatusOK:
			return measure.Outcome{Kind: measure.Served}
		}
		return measure.Outcome{Kind: measure.Refused, Reason: resp.Status}
	}
}

func (o order) findCapacity() (measured, error) {
	found, err := capacity.Find(context.Background(), capacity.Config{Send: o.sender(), SLO: objective, Retake: 2 * time.Second, Seed: o.Seed})
	return measured{Capacity: found.Rate}, err
}

func (o order) load() (measured, error) {
	arrivals, err := openloop.Poisson(o.Profile, o.Seed)
	if err != nil {
		return measured{}, err
	}
	g, err := openloop.New(openloop.Config{Arrivals: arrivals, Send: o.sender(), SLO: objective, Drain: 500 * time.Millisecond})
	if err != nil {
		return measured{}, err
	}
	runtime.GC() // none is due during the run
	res, err := g.Run(context.Background())
	if err != nil {
		return measured{}, err
	}
	return o.judge(res, g.Recorder().Span(o.From, o.Profile.Duration())), nil
}

// judge takes out of a result what the table needs.
func (o order) judge(res measure.Result, counted measure.Span) measured {
	m := measured{
		Capacity: o.Capacity, Offered: res.Total.Offered,
		P99: counted.Latency.P99, Refusal: counted.Refusal.P50, Refusal99: counted.Refusal.P99, Lag: res.SendLag.P99,
		RefusedBy: counted.RefusedBy, Valid: res.Valid, Invalid: res.Invalid,
	}
	if o.Capacity > 0 {
		m.Share = counted.Goodput / o.Capacity
	}
	if counted.Offered > 0 {
		of := float64(counted.Offered)
		m.Late = float64(counted.TimedOut+counted.Served-counted.Good) / of
		m.Refused, m.Failed = float64(counted.Refused)/of, float64(counted.Failed)/of
	}
	return m
}
