package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// Service describes one service of the call graph.
type Service struct {
	Name string `json:"name"`
	// Next is the address of the service that this one calls for every request.
	// Empty: it does the work itself.
	Next string `json:"next,omitempty"`
	// Gated puts a gate in front of the service, and a wallet behind its calls.
	Gated bool `json:"gated"`
	// Tenants makes its gate tell workflows apart: each has a rate, and its turn
	// in the queue.
	Tenants bool `json:"tenants,omitempty"`
	// Budget is how long callers wait for an answer; with Tenants, a request may
	// wait at its rate's limit for half of the objective, and not for the default
	// half of its budget. 0 leaves the default.
	Budget time.Duration `json:"budget_ns,omitempty"`
	// Objective is the latency objective: all that a gate is told.
	Objective time.Duration `json:"objective_ns"`
	// Workers, Mean and Seed describe the work of a service without Next: how
	// many requests it serves at once, and how long each takes, exponentially
	// distributed.
	Workers int           `json:"workers,omitempty"`
	Mean    time.Duration `json:"mean_ns,omitempty"`
	Seed    uint64        `json:"seed,omitempty"`
}

// Report is what a service counted since it started.
type Report struct {
	Name  string `json:"name"`
	Gated bool   `json:"gated"`
	// Shed counts refusals that were made here, by reason: by the service's gate,
	// or by its wallet before it called the next service.
	Shed map[string]uint64 `json:"shed,omitempty"`
	// Inside is the number of requests in the process: in the gate's queue, in
	// its slots, or without a gate in a handler.
	Inside int `json:"inside"`

	// Waiting to Drained describe the gate: requests in its queue and in slots,
	// the limit on these, the queueing delay, credits in the pool and granted,
	// clients that have an account, and those of them without credit.
	Waiting int     `json:"waiting"`
	Running int     `json:"running"`
	Limit   int     `json:"limit"`
	DelayMS float64 `json:"delay_ms"`
	Credits int     `json:"credits"`
	Granted int     `json:"granted"`
	Clients int     `json:"clients"`
	Drained int     `json:"drained"`

	// Work describes the workers of a service that does the work itself.
	Work *Work `json:"work,omitempty"`
}

// Work describes a service's workers.
type Work struct {
	Workers  int    `json:"workers"`
	Busy     int    `json:"busy"`
	Queued   int    `json:"queued"`
	Finished uint64 `json:"finished"`
	// Wasted counts those of Finished whose callers had given up by then.
	Wasted uint64 `json:"wasted"`
}

const (
	// method is the one that every service of the demo serves.
	method      = "/spillgate.demo.v1.Tier/Do"
	serviceName = "spillgate.demo.v1.Tier"
	// reportEvery is how often a service tells how it is.
	reportEvery = 200 * time.Millisecond
)

// tier is a running service.
type tier struct {
	cfg     Service
	gate    *live.Gate       // nil without gates
	station *service.Station // nil if it calls another service
	next    *grpc.ClientConn // nil if it does the work itself
	inside  atomic.Int64     // in handlers
	unsent  [work.NumReasons]atomic.Uint64
}

func (s Service) validate() error {
	var errs []error
	if s.Objective <= 0 {
		errs = append(errs, fmt.Errorf("demo: %s: objective is %v, expected above 0", s.Name, s.Objective))
	}
	if s.Next == "" && (s.Workers < 1 || s.Mean <= 0) {
		errs = append(errs, fmt.Errorf("demo: %s: %d workers of %v, expected at least one, above 0", s.Name, s.Workers, s.Mean))
	}
	return errors.Join(errs...)
}

// run serves until ctx ends.
func (s Service) run(ctx context.Context, out *writer) error {
	if err := s.validate(); err != nil {
		return err
	}
	t := &tier{cfg: s}
	options, err := t.open()
	defer t.close()
	if err != nil {
		return err
	}
	return serve(ctx, out, s.Name, options, s.Gated, describe(serviceName, answer{"Do", t.do}), t.report)
}

// serve answers calls of a service at a free port until ctx ends, and reports meanwhile.
func serve(ctx context.Context, out *writer, name string, options []grpc.ServerOption, gated bool, desc *grpc.ServiceDesc, now func() *Report) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	server := grpc.NewServer(options...)
	server.RegisterService(desc, struct{}{})
	if gated {
		grpcgate.RegisterControl(server)
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	defer server.Stop() // what runs is cut off: the demo's act is over
	defer context.AfterFunc(ctx, server.Stop)()
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	reports.Go(func() { report(reporting, out, now) })

	out.text("listening on " + listener.Addr().String())
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	return nil
}

// open makes what the service needs and returns its server's options.
func (t *tier) open() ([]grpc.ServerOption, error) {
	var err error
	if t.cfg.Next == "" {
		t.station, err = service.New(service.Config{Workers: t.cfg.Workers, Mean: t.cfg.Mean, Seed: t.cfg.Seed})
	} else {
		t.next, err = grpc.NewClient("passthrough:///"+t.cfg.Next, dialOptions(t.cfg.Gated)...)
	}
	if err != nil || !t.cfg.Gated {
		return nil, err
	}
	cfg := live.GateConfig{Config: admission.Config{Objective: t.cfg.Objective}}
	if t.cfg.Tenants {
		cfg.Service = t.cfg.Name
		cfg.Rates, cfg.Schedule.Fair = &rates.Config{WaitShare: t.cfg.waitShare()}, true
	}
	t.gate, err = live.NewGate(cfg)
	if err != nil {
		return nil, err
	}
	return grpcgate.ServerOptions(t.gate, grpcgate.WithTrust(grpcgate.Everyone)), nil
}

// waitShare is the part of a request's budget that it may wait at a limit. At the
// default a tenant whose rate is about what it sends keeps a queue there that is
// half a budget long, five times the objective here, and has nothing in time.
func (s Service) waitShare() float64 {
	if s.Budget <= 0 {
		return 0
	}
	return min(0.5*float64(s.Objective)/float64(s.Budget), 1)
}

// dialOptions returns the options of every client in the demo.
func dialOptions(gated bool) []grpc.DialOption {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if gated {
		options = append(options, grpcgate.DialOptions()...)
	}
	return options
}

func (t *tier) close() {
	if t.gate != nil {
		_ = t.gate.Close()
	}
	if t.next != nil {
		_ = t.next.Close()
	}
	if t.station != nil {
		t.station.Close()
	}
}

// answer is a method without fields, and what does it.
type answer struct {
	method string
	do     func(context.Context) error
}

// describe returns a gRPC service of methods without fields.
func describe(name string, answers ...answer) *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
	for _, a := range answers {
		info := &grpc.UnaryServerInfo{FullMethod: "/" + name + "/" + a.method}
		handle := func(ctx context.Context, _ any) (any, error) { return new(emptypb.Empty), a.do(ctx) }
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: a.method,
			Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
				in := new(emptypb.Empty)
				if err := decode(in); err != nil {
					return nil, err
				}
				if intercept == nil {
					return handle(ctx, in)
				}
				return intercept(ctx, in, info, handle)
			}})
	}
	return desc
}

// do serves one request: by calling the next service, or by working on it.
func (t *tier) do(ctx context.Context) error {
	t.inside.Add(1)
	defer t.inside.Add(-1)
	if t.next != nil {
		err := t.next.Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty))
		var refusal *live.Refusal
		if errors.As(err, &refusal) && !refusal.Reason.Sent() {
			t.unsent[refusal.Reason].Add(1)
		}
		return err
	}
	switch err := t.station.Do(ctx); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	default:
		return status.Error(codes.Unavailable, err.Error())
	}
}

// report writes what now returns, now and then, and a last time when ctx ends.
func report(ctx context.Context, out *writer, now func() *Report) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			out.line(Line{Service: now()})
		case <-ctx.Done():
			out.line(Line{Service: now()})
			return
		}
	}
}

// reportOf says what a gate counted, if there is one.
func reportOf(name string, gate *live.Gate) *Report {
	r := &Report{Name: name, Shed: map[string]uint64{}}
	if gate == nil {
		return r
	}
	st := gate.Stats()
	for reason, n := range st.Shed {
		if n > 0 {
			r.Shed[work.Reason(reason).String()] = n
		}
	}
	r.Gated, r.Inside = true, st.Waiting+st.Running
	r.Waiting, r.Running, r.Limit = st.Waiting, st.Running, st.Limit
	r.DelayMS = milliseconds(st.Delay)
	r.Credits, r.Granted, r.Clients, r.Drained = st.Credits, st.Issued, st.Clients, st.Drained
	return r
}

func (t *tier) report() *Report {
	r := reportOf(t.cfg.Name, t.gate)
	if t.gate == nil {
		r.Inside = int(t.inside.Load())
	}
	for reason := range work.NumReasons {
		if n := t.unsent[reason].Load(); n > 0 {
			r.Shed[work.Reason(reason).String()] += n
		}
	}
	if t.station != nil {
		c := t.station.Counts()
		r.Work = &Work{Workers: t.cfg.Workers, Busy: c.Running, Queued: c.Waiting, Finished: c.Finished, Wasted: c.Wasted}
	}
	return r
}

// milliseconds rounds to microseconds, which is more than a view shows.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
