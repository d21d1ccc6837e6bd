package served

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/proxy"
)

// serverVariable makes a process one of the servers that are compared: one of
// the kinds below and, after a blank, the URL that a proxy forwards to.
const serverVariable = "SPILLGATE_COMPARED"

const (
	grpcPlain  = "grpc/plain"
	grpcGated  = "grpc/gated"
	httpPlain  = "http/plain"
	httpGated  = "http/gated"
	proxyPlain = "proxy/plain"
	proxyGated = "proxy/gated"
)

const crowdMethod = "/spillgate.lab.Crowd/Echo"

// state is what a server tells of itself.
type state struct {
	// Memory is what is in use by heap and stacks, after collections, in bytes; 0 if
	// it was not asked to collect.
	Memory  float64       `json:"memory"`
	Used    time.Duration `json:"cpu_ns"`  // processor time, the collections too
	Clients int           `json:"clients"` // accounts at the gate
}

// What a server can be asked, as a byte.
const (
	askCollected = 'c' // its state after collections
	askAsIs      = 'i' // its state as it is
)

// questionTime is how long a question and its answer may take, collections included.
const questionTime = 30 * time.Second

// atOnce is how many calls a compared server is sent at the same time.
const atOnce = 5

// compared is such a server, seen from the process that compares.
type compared struct {
	child *proc.Child
	calls string // address
	ask   string // address at which it tells its state
}

// compare starts a server on a processor of its own, with env in its environment.
func compare(ctx context.Context, kind, target string, env ...string) (*compared, error) {
	cpus, err := proc.CPUs()
	if err != nil {
		return nil, err
	}
	child, err := proc.Start(ctx, proc.Spec{Name: kind, Env: append(env, serverVariable+"="+kind+" "+target),
		CPUs: cpus[:1], GOMAXPROCS: 1, GOGC: "400", Nice: -20})
	if err != nil {
		return nil, err
	}
	c := &compared{child: child}
	c.calls, c.ask, _ = strings.Cut(child.Addr(), ",")
	return c, nil
}

// state asks the server to collect what is garbage, and how it is then.
func (c *compared) state() (state, error) { return c.question(askCollected) }

// used asks how much processor time the server has used so far.
func (c *compared) used() (time.Duration, error) {
	s, err := c.question(askAsIs)
	return s.Used, err
}

// spent returns what processor time the server uses for one of n calls, which work makes.
func (c *compared) spent(n int, work func() error) (each time.Duration, err error) {
	before, err := c.used()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := c.used()
	return (after - before) / time.Duration(n), err
}

func (c *compared) question(what byte) (s state, err error) {
	conn, err := net.DialTimeout("tcp", c.ask, 10*time.Second)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(questionTime))
	if _, err := conn.Write([]byte{what}); err != nil {
		return s, err
	}
	return s, json.NewDecoder(conn).Decode(&s)
}

func (c *compared) stop() { c.child.Stop(time.Second) }

// serverChild is the other side of compare.
func serverChild() {
	order, ok := os.LookupEnv(serverVariable)
	if !ok {
		return
	}
	proc.ExitWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	kind, target, _ := strings.Cut(order, " ")
	err := serveCompared(ctx, kind, target)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "served:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveCompared serves calls at one address and tells its state to whoever
// connects to another one, until ctx ends.
func serveCompared(ctx context.Context, kind, target string) error {
	switch kind {
	case grpcPlain, grpcGated, httpPlain, httpGated, proxyPlain, proxyGated:
	default:
		return fmt.Errorf("no kind of server %q", kind)
	}
	var gate *live.Gate
	if kind == grpcGated || kind == httpGated {
		var err error
		if gate, err = live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Second}}); err != nil {
			return err
		}
		defer gate.Close()
	}
	questions, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer questions.Close()
	go func() {
		for {
			conn, err := questions.Accept()
			if err != nil {
				return
			}
			answerQuestion(conn, gate)
		}
	}()
	if kind == proxyGated {
		return serveProxy(ctx, target, questions.Addr())
	}
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s,%s\n", calls.Addr(), questions.Addr())
	switch kind {
	case grpcPlain, grpcGated:
		return serveGRPC(ctx, calls, gate)
	case httpPlain, httpGated:
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
		if gate != nil {
			h = httpgate.Handler(gate, h)
		}
		return serveHTTP(ctx, calls, h, gate != nil)
	}
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	return serveHTTP(ctx, calls, &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(u); r.SetXForwarded() },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		BufferPool: new(buffers),
	}, false)
}

func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, track bool) error {
	server := &http.Server{Handler: h}
	if track {
		httpgate.Track(server)
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func serveProxy(ctx context.Context, target string, questions net.Addr) error {
	p, err := proxy.New(proxy.Config{Objective: time.Second, Listen: []proxy.Listener{{Address: "127.0.0.1:0"}},
		Upstreams: []proxy.Upstream{{URL: target}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := p.Listen(); err != nil {
		return err
	}
	front, _ := p.Addrs()
	fmt.Printf("listening on %s,%s\n", front[0], questions)
	return p.Run(ctx)
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

func serveGRPC(ctx context.Context, l net.Listener, gate *live.Gate) error {
	var options []grpc.ServerOption
	if gate != nil {
		options = grpcgate.ServerOptions(gate)
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "spillgate.lab.Crowd", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(emptypb.Empty)
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(context.Context, any) (any, error) { return req, nil }
			if intercept == nil {
				return handle(ctx, req)
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: crowdMethod}, handle)
		},
	}}}, struct{}{})
	defer context.AfterFunc(ctx, server.Stop)()
	if gate != nil {
		return grpcgate.Serve(server, l)
	}
	return server.Serve(l)
}

// answerQuestion is the server's side of question.
func answerQuestion(conn net.Conn, gate *live.Gate) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(questionTime))
	var what [1]byte
	if _, err := io.ReadFull(conn, what[:]); err != nil {
		return
	}
	_ = json.NewEncoder(conn).Encode(stateOf(gate, what[0] == askCollected))
}

func stateOf(gate *live.Gate, collect bool) state {
	var s state
	if collect {
		for range 4 { // stacks shrink by half in each
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.Memory = float64(m.HeapAlloc + m.StackInuse)
	}
	if gate != nil {
		s.Clients = gate.Stats().Clients
	}
	s.Used = cpuTime()
	return s
}
