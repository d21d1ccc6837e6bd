package culprits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/tracer"
)

// goObjective is that of the requests to a Go service.
const goObjective = 50 * ms

// goReport stands for the process of a culprit in a Go service.
const goReport, goOthers = 1, 0

// goHandler is what a service does with a request: read, write or report.
type goHandler func(ctx context.Context, what string, i int) error

// goCase is a Go service with a resource that a report takes from the others. The handlers
// have what README says that they need, and nothing else.
type goCase struct {
	name, title, about string
	// open makes the resource and what uses it; tr is nil without a gate.
	open func(tr *tracer.Tracer) goHandler
	// reports is how many reports come at once, 1 if it is 0.
	reports int
	// nobody tells that nobody can be named, so that cancelling anybody is wrong.
	nobody bool
}

// goLasts is for how long a report goes on if it is left alone.
const goLasts = 2500 * ms

func goCases() []goCase {
	return append([]goCase{
		{name: "pool", title: "a report takes all connections of a pool", about: `Requests need one of eight connections for 2 ms. A report takes one after the other and keeps them.`, open: goPool},
		{name: "starved", title: "a reader starves the writers of a lock", about: `Requests read or write for 1 ms under a lock for readers and writers. A report reads for seconds: writers wait for it,
and readers behind the writers.`, open: goStarved},
		{name: "cache", title: "a report floods a cache", about: `Requests get eight of 400 values from a cache of 500; to load one takes 10 ms. A report reads other values, one after
the other, and displaces these.`, open: goCache},
		{name: "mutex", title: "a report keeps a mutex over a slow call", about: `Requests keep a mutex for 0.2 ms, and every second one an inner mutex after it. A report keeps the inner one while it waits for
another service: requests wait for requests that wait for it.`, open: goMutex},
		{name: "semaphore", title: "a report takes most of a semaphore", about: `Requests need one of sixteen units for 4 ms. A report asks for all but one at once, and keeps them.`, open: goSemaphore},
	}, goMore()...)
}

func goPool(tr *tracer.Tracer) goHandler {
	const size = 8
	pool := tr.NewPool("connections", size)
	return func(ctx context.Context, what string, _ int) error {
		n := 1
		if what == "report" {
			n = size
		}
		for k := range n {
			if err := pool.Acquire(ctx, 1); err != nil {
				return err
			}
			defer pool.Release(ctx, 1)
			if k+1 < n {
				pause(ctx, 3*ms)
			}
		}
		if what == "report" {
			return pause(ctx, goLasts)
		}
		return pause(ctx, 2*ms)
	}
}

func goStarved(tr *tracer.Tracer) goHandler {
	table := tr.NewRWMutex("table")
	return func(ctx context.Context, what string, i int) error {
		lasts := time.Duration(ms)
		switch {
		case what == "report":
			lasts = goLasts
			fallthrough
		case i%2 == 0:
			if err := table.RLock(ctx); err != nil {
				return err
			}
			defer table.RUnlock(ctx)
		default:
			if err := table.Lock(ctx); err != nil {
				return err
			}
			defer table.Unlock(ctx)
		}
		return pause(ctx, lasts)
	}
}

func goCache(tr *tracer.Tracer) goHandler {
	const size, hot, gets = 500, 400, 8
	values := tracer.NewCache[int, int](tr, "values", size)
	get := func(ctx context.Context, key int, takes time.Duration) error {
		_, err := values.Get(ctx, key, func(ctx context.Context) (int, uint64, error) { return key, 1, pause(ctx, takes) })
		return err
	}
	return func(ctx context.Context, what string, i int) error {
		if what != "report" {
			for k := range gets {
				if err := get(ctx, (i*gets+k)*7919%hot, 10*ms); err != nil {
					return err
				}
			}
			return nil
		}
		until := time.Now().Add(goLasts)
		for key := hot; time.Now().Before(until); key++ {
			if err := get(ctx, key, ms/10); err != nil {
				return err
			}
		}
		return nil
	}
}

func goMutex(tr *tracer.Tracer) goHandler {
	orders, stock := tr.NewMutex("orders"), tr.NewMutex("stock")
	return func(ctx context.Context, what string, i int) error {
		if what == "report" {
			if err := stock.Lock(ctx); err != nil {
				return err
			}
			defer stock.Unlock(ctx)
			return pause(ctx, goLasts)
		}
		if err := orders.Lock(ctx); err != nil {
			return err
		}
		defer orders.Unlock(ctx)
		if i%2 == 0 {
			if err := stock.Lock(ctx); err != nil {
				return err
			}
			defer stock.Unlock(ctx)
		}
		return pause(ctx, ms/5)
	}
}

func goSemaphore(tr *tracer.Tracer) goHandler {
	const units = 16
	semaphore := tr.NewPool("units", units)
	return func(ctx context.Context, what string, _ int) error {
		n, lasts := int64(1), 4*ms
		if what == "report" {
			n, lasts = units-1, goLasts
		}
		if err := semaphore.Acquire(ctx, n); err != nil {
			return err
		}
		defer semaphore.Release(ctx, n)
		return pause(ctx, lasts)
	}
}

// pause is work that needs no processor. It ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// goServer is a service that runs, and what calls it.
type goServer struct {
	call func(ctx context.Context, what string, i int) error
	stop func()
}

// serveGo starts a service, over gRPC or HTTP, behind a gate if mode says what it does
// with culprits.
func serveGo(c goCase, overHTTP bool, mode *culprit.Mode, cancelled func(int64, string)) (*goServer, error) {
	var gate *live.Gate
	var tr *tracer.Tracer
	closers := []func() error{}
	stop := func() {
		for i := len(closers) - 1; i >= 0; i-- {
			_ = closers[i]()
		}
	}
	if mode != nil {
		cfg := live.GateConfig{Config: admission.Config{Objective: goObjective}}
		cfg.Culprit.Mode = *mode
		cfg.Culprit.Notify = func(n live.CulpritNotice) {
			if n.Step != culprit.NoStep && !n.Would {
				cancelled(goKind(n.Kind), n.Step.String())
			}
		}
		var err error
		if gate, err = live.NewGate(cfg); err != nil {
			return nil, err
		}
		closers = append(closers, gate.Close)
		if *mode != culprit.Off {
			if tr, err = tracer.Of(gate, tracer.Config{}); err != nil {
				stop()
				return nil, err
			}
			closers = append(closers, tr.Close)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, err
	}
	serve := serveGRPC
	if overHTTP {
		serve = serveHTTP
	}
	call, end := serve(listener, gate, c.open(tr))
	closers = append(closers, end)
	return &goServer{call, stop}, nil
}

// goKind says whose a kind is.
func goKind(kind string) int64 {
	if strings.Contains(strings.ToLower(kind), "report") {
		return goReport
	}
	return goOthers
}

func serveHTTP(l net.Listener, gate *live.Gate, handle goHandler) (call func(context.Context, string, int) error, end func() error) {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("i"), &i)
		if err := handle(r.Context(), r.URL.Path[1:], i); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Handler: handler}
	if gate != nil {
		server.Handler = httpgate.Handler(gate, handler)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	call = func(ctx context.Context, what string, i int) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/%s?i=%d", l.Addr(), what, i), nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return errors.Join(err, fmt.Errorf("status %d", resp.StatusCode))
		}
		return nil
	}
	return call, func() error {
		client.CloseIdleConnections()
		err := server.Close()
		<-done
		return err
	}
}

func serveGRPC(l net.Listener, gate *live.Gate, handle goHandler) (call func(context.Context, string, int) error, end func() error) {
	var serial atomic.Int64
	method := func(what string) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: what, Handler: func(_ any, ctx context.Context, read func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := read(in); err != nil {
				return nil, err
			}
			do := func(ctx context.Context, _ any) (any, error) { return in, handle(ctx, what, int(serial.Add(1))) }
			if around == nil {
				return do(ctx, in)
			}
			return around(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/lab.Service/" + what}, do)
		}}
	}
	var options []grpc.ServerOption
	if gate != nil {
		options = grpcgate.ServerOptions(gate)
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "lab.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{method("read"), method("report")}}, struct{}{})
	var running sync.WaitGroup
	running.Go(func() {
		if gate == nil {
			_ = server.Serve(l)
			return
		}
		_ = grpcgate.Serve(server, l)
	})
	conn, _ := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())) // the address is good
	call = func(ctx context.Context, what string, _ int) error {
		return conn.Invoke(ctx, "/lab.Service/"+what, new(emptypb.Empty), new(emptypb.Empty))
	}
	return call, func() error {
		err := conn.Close()
		server.Stop()
		running.Wait()
		return err
	}
}

// goScene is a case as a scene.
func goScene(c goCase, overHTTP bool) *scene {
	s, _ := goStage(c, overHTTP)
	return s
}

// goStage is a case as a scene, with what asks its service for anything.
func goStage(c goCase, overHTTP bool) (*scene, func(ctx context.Context, what string, i int) error) {
	name, over := "go-"+c.name, "gRPC"
	if overHTTP {
		name, over = name+"-http", "HTTP"
	}
	s := &scene{name: name, title: c.title + ", over " + over, objective: goObjective, rate: 400, lasts: goLasts, nativeTitle: "none", nobody: c.nobody}
	var front atomic.Pointer[goServer]
	through := func(mode *culprit.Mode) func(context.Context, *scene, *bench, func(int64, string)) (func(), error) {
		return func(_ context.Context, _ *scene, _ *bench, cancelled func(int64, string)) (func(), error) {
			server, err := serveGo(c, overHTTP, mode, cancelled)
			if err != nil {
				return nil, err
			}
			was := front.Swap(server)
			return func() {
				front.Store(was)
				server.stop()
			}, nil
		}
	}
	s.start = func(context.Context) (*bench, error) {
		server, err := serveGo(c, overHTTP, nil, nil)
		if err != nil {
			return nil, err
		}
		front.Store(server)
		return &bench{used: func() time.Duration { return 0 }, stop: server.stop}, nil
	}
	ask := func(ctx context.Context, what string, i int) error { return front.Load().call(ctx, what, i) }
	s.request = func(ctx context.Context, _ *bench, i int) error { return ask(ctx, "read", i) }
	for range max(c.reports, 1) {
		s.culprits = append(s.culprits, func(ctx context.Context, _ *bench, _ float64, mark func(int64)) error {
			if !c.nobody {
				mark(goReport)
			}
			for ctx.Err() == nil { // as a client that knows nothing of Spillgate
				if err := ask(ctx, "report", 0); err == nil {
					break
				}
				_ = pause(ctx, 25*ms)
			}
			return nil
		})
	}
	off, enforce := culprit.Off, culprit.Enforce
	s.contenders = func() []contender {
		return []contender{
			{name: "no culprit", alone: true, run: through(&enforce)},
			{name: "no control"},
			{name: "a gate that looks for no culprit", run: through(&off)},
			{name: ours, run: through(&enforce)},
		}
	}
	return s, ask
}

// goExperiments are the cases of Go services, over gRPC and over HTTP.
func goExperiments() (all []experiment.Experiment) {
	for _, c := range goCases() {
		for _, overHTTP := range []bool{false, true} {
			s := goScene(c, overHTTP)
			all = append(all, experiment.Experiment{Name: "atropos/" + s.name, Title: s.title, About: c.about, Live: true,
				Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
					return run(ctx, o, goScene(c, overHTTP))
				}})
		}
	}
	return all
}
