package arena

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/internal/harness/capacity"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/work"
)

const role = proc.Role[order]("SPILLGATE_ARENA")

// order is what a child is to do.
type order struct {
	Role       string `json:"role"` // "server", "load" or "capacity"
	Controller string `json:"controller"`
	Setting    Setting
	Addr       string           `json:"addr,omitempty"`
	Profile    openloop.Profile `json:"profile,omitempty"`
	Conns      int              `json:"conns,omitempty"`
	Seed       uint64           `json:"seed"`
	// From is where the part of a run begins that counts.
	From time.Duration `json:"from,omitempty"`
	// Cold: connect and send nothing before the run.
	Cold bool `json:"cold,omitempty"`
	// Begin is when the run begins, on the clock that all processes of a machine
	// share, and Changes count from then. Zero: when the generator is ready.
	Begin   time.Time `json:"begin,omitzero"`
	Changes []Change  `json:"changes,omitempty"`
}

// answer is what a generator found.
type answer struct {
	Measured
	Capacity float64 `json:"capacity,omitempty"`
	// Late is by how much the generator was not ready when the run was to begin;
	// there was none then.
	Late time.Duration `json:"late_ns,omitempty"`
}

// Child does a child's work and ends the process if this process is one, and
// returns otherwise. Call it first in main, with all controllers that Run is
// given and the one called "none", under which the capacity is measured.
func Child(controllers []Controller) {
	role.Play("arena", func(o order) error { return o.obey(controllers) })
}

func (o order) obey(controllers []Controller) error {
	i := slices.IndexFunc(controllers, func(c Controller) bool { return c.Name == o.Controller })
	if i < 0 {
		return fmt.Errorf("no controller %q", o.Controller)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.Role == "server" {
		return serve(ctx, o, controllers[i])
	}
	found, err := generate(ctx, o, controllers[i])
	if err != nil {
		return err
	}
	return proc.Answer(found)
}

const method = "/spillgate.lab.Arena/Work"

func serve(ctx context.Context, o order, c Controller) error {
	kind := service.Sleep
	workers := o.Setting.Slots
	if o.Setting.Station == "spin" {
		// The processor is the server: the queue is the Go scheduler's.
		kind, workers = service.Spin, 0
	}
	station, err := service.New(service.Config{Kind: kind, Workers: workers, Mean: o.Setting.Mean, Seed: o.Seed})
	if err != nil {
		return err
	}
	defer station.Close()
	for _, c := range o.Changes {
		if err := station.SlowAt(o.Begin.Add(c.At), c.Slowness); err != nil {
			return err
		}
	}
	in, err := c.Server(o.Setting)
	if err != nil {
		return err
	}
	if in.Stop != nil {
		defer in.Stop()
	}
	server := grpc.NewServer(in.Options...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "spillgate.lab.Arena", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Work",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(emptypb.Empty)
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, _ any) (any, error) {
				return req, station.Do(context.WithoutCancel(ctx))
			}
			if intercept == nil {
				return handle(ctx, req)
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, handle)
		},
	}}}, struct{}{})
	if in.Register != nil {
		in.Register(server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}

func generate(ctx context.Context, o order, c Controller) (answer, error) {
	send, closeAll, err := dial(ctx, o, c)
	if err != nil {
		return answer{}, err
	}
	defer closeAll()
	if o.Role == "capacity" {
		found, err := capacity.Find(ctx, capacity.Config{Send: send, SLO: o.Setting.Objective, Seed: o.Seed})
		return answer{Capacity: found.Rate}, err
	}
	arrivals, err := openloop.Poisson(o.Profile, o.Seed)
	if err != nil {
		return answer{}, err
	}
	g, err := openloop.New(openloop.Config{Arrivals: arrivals, Send: send, SLO: o.Setting.Objective, Drain: 300 * time.Millisecond})
	if err != nil {
		return answer{}, err
	}
	runtime.GC() // what dialing left; none is due during the run
	if !o.Begin.IsZero() {
		early := time.Until(o.Begin)
		if early < 0 {
			return answer{Late: -early}, nil
		}
		select {
		case <-time.After(early):
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
	result, err := g.Run(ctx)
	return answer{Measured: Measured{Result: result, Counted: g.Recorder().Span(o.From, o.Profile.Duration())}}, err
}

// dial opens the connections and waits until each has carried a call, or had one
// refused: a controller in its first moments may do that.
func dial(ctx context.Context, o order, c Controller) (openloop.Send, func(), error) {
	var conns []*grpc.ClientConn
	var stops []func()
	closeAll := func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		for _, stop := range stops {
			stop()
		}
	}
	for i := range o.Conns {
		opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
		if c.Client != nil {
			more, stop, err := c.Client(o.Setting, i)
			if err != nil {
				closeAll()
				return nil, nil, err
			}
			opts = append(opts, more...)
			if stop != nil {
				stops = append(stops, stop)
			}
		}
		conn, err := grpc.NewClient("passthrough:///"+o.Addr, opts...)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		first, cancel := context.WithTimeout(ctx, 5*time.Second)
		if o.Cold {
			err := ready(first, conn)
			cancel()
			if err != nil {
				closeAll()
				return nil, nil, err
			}
			continue
		}
		err := conn.Invoke(withPriority(first, 0), method, new(emptypb.Empty), new(emptypb.Empty))
		cancel()
		if code := status.Code(err); code == codes.Unimplemented || ctx.Err() != nil {
			closeAll()
			return nil, nil, fmt.Errorf("the first call: %w", errors.Join(err, ctx.Err()))
		}
	}
	send := func(ctx context.Context, i int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(ctx, intended.Add(o.Setting.Objective))
		defer cancel()
		// Spread over connections and priorities without a pattern common to both.
		ctx = withPriority(ctx, work.Priority(i*61%128))
		err := conns[i%len(conns)].Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty))
		return outcome(err)
	}
	return send, closeAll, nil
}

// ready waits until conn is connected.
func ready(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection, state %v: %w", state, ctx.Err())
		}
	}
	return nil
}

// outcome reads a status as any client would.
func outcome(err error) measure.Outcome {
	switch code := status.Code(err); code {
	case codes.OK:
		return measure.Outcome{Kind: measure.Served}
	case codes.DeadlineExceeded:
		if s, _ := status.FromError(err); strings.Contains(s.Message(), "refused") {
			return measure.Outcome{Kind: measure.Refused, Reason: code.String()}
		}
		return measure.Outcome{Kind: measure.TimedOut}
	case codes.ResourceExhausted, codes.Unavailable, codes.Unknown, codes.Aborted, codes.PermissionDenied:
		// The last is what grpc makes of a tap handle's error without a status.
		return measure.Outcome{Kind: measure.Refused, Reason: code.String()}
	default:
		return measure.Outcome{Kind: measure.Failed, Reason: code.String()}
	}
}
