package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Shop describes one server of a shop. A read needs one of them, a checkout all
// of them, one after the other: each does its part and then calls the next.
//
// Whoever waits for a worker waits in a gate's queue. The gate has as many slots as
// there are workers, so that nothing queues behind it, where it could not be
// ordered. A server holds no worker while it waits for the next server.
type Shop struct {
	Name string `json:"name"`
	// Next is the address of the server that a checkout goes on to; empty at the
	// last one.
	Next string `json:"next,omitempty"`
	// Shares lets a live.Shares tell checkouts from reads, and weigh the two in the
	// gate's queue. Without it the queue is in order of arrival.
	Shares bool `json:"shares"`
	// Objective is that of the gate, far beyond what is to be seen here: the act is
	// about order, and refuses nothing.
	Objective time.Duration `json:"objective_ns"`
	// Workers and Mean are as in Service, Seed decides the service times. Requests
	// draw them in the order in which they are taken up, so that any order has the
	// same work done at the same instants.
	Workers int           `json:"workers"`
	Mean    time.Duration `json:"mean_ns"`
	Seed    uint64        `json:"seed"`
	// Period is the time between two changes of the weights.
	Period time.Duration `json:"period_ns,omitempty"`
}

// Weighing is what a server's Shares found at an instant.
type Weighing struct {
	Server string    `json:"server"`
	At     time.Time `json:"at"`
	// Weight is that of interactive requests, the others have the rest. Want is the
	// one that is being gone to.
	Weight float64 `json:"weight"`
	Want   float64 `json:"want"`
	Reason string  `json:"reason"`
	// Checkout and Read are the classes of the two methods, as it learned them, and
	// why.
	Checkout Verdict `json:"checkout"`
	Read     Verdict `json:"read"`
}

// Verdict is the class of a method.
type Verdict struct {
	Class string `json:"class"`
	// Why is a share.Why, or ByCaller.
	Why  string `json:"why"`
	Seen int    `json:"seen"` // requests it rests on
}

// ByCaller is why a request is interactive that came as one.
const ByCaller = "caller"

const (
	shopName       = "spillgate.demo.v1.Shop"
	checkoutMethod = "/" + shopName + "/Checkout"
	readMethod     = "/" + shopName + "/Read"
)

// shop is a running server.
type shop struct {
	cfg    Shop
	gate   *live.Gate
	shares *live.Shares // nil: in order of arrival
	bench  *bench
	next   *grpc.ClientConn // nil at the last one
	inside atomic.Int64
	told   atomic.Bool // the last checkout came with its class
}

func (s Shop) validate() error {
	var errs []error
	if s.Objective <= 0 {
		errs = append(errs, fmt.Errorf("demo: %s: objective is %v, expected above 0", s.Name, s.Objective))
	}
	if s.Workers < 1 || s.Mean <= 0 {
		errs = append(errs, fmt.Errorf("demo: %s: %d workers of %v, expected at least one, above 0", s.Name, s.Workers, s.Mean))
	}
	return errors.Join(errs...)
}

// run serves until ctx ends.
func (s Shop) run(ctx context.Context, out *writer) error {
	if err := s.validate(); err != nil {
		return err
	}
	t := &shop{cfg: s}
	defer t.close()
	if err := t.open(out); err != nil {
		return err
	}
	do := func(method string) func(context.Context) error {
		return func(ctx context.Context) error { return t.do(ctx, method) }
	}
	desc := describe(shopName, answer{"Checkout", do(checkoutMethod)}, answer{"Read", do(readMethod)})
	return serve(ctx, out, s.Name, nil, false, desc, t.report)
}

// open makes what the server needs.
func (t *shop) open(out *writer) error {
	s := t.cfg
	var err error
	if t.bench, err = newBench(s.Workers, s.Mean, s.Seed); err != nil {
		return err
	}
	if s.Next != "" {
		t.next, err = grpc.NewClient("passthrough:///"+s.Next, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
	}
	cfg := live.GateConfig{Config: admission.Config{
		Objective: s.Objective, Slots: slots.Config{Initial: s.Workers, Min: s.Workers, Max: s.Workers}, NoCredit: true,
	}}
	made := make(chan struct{}) // its first period may end before it is known here
	defer close(made)
	if s.Shares {
		cfg.ClassShares = &live.SharesConfig{
			Config:  share.Config{Period: s.Period, Patience: patient, DefaultPatience: patient},
			Decided: func(d share.Decision) { <-made; out.line(Line{Weighing: t.weighing(d)}) },
		}
	}
	if t.gate, err = live.NewGate(cfg); err == nil {
		t.shares = t.gate.Shares()
	}
	return err
}

func (t *shop) close() {
	if t.gate != nil {
		_ = t.gate.Close()
	}
	if t.next != nil {
		_ = t.next.Close()
	}
	if t.bench != nil {
		t.bench.sleep.Close()
	}
}

// do serves one request: this server's part, and then the rest of the chain.
func (t *shop) do(ctx context.Context, method string) error {
	t.inside.Add(1)
	defer t.inside.Add(-1)
	goesOn := method == checkoutMethod && t.next != nil
	class, err := t.part(ctx, method, goesOn)
	if err != nil {
		return failed(err)
	}
	if !goesOn {
		return nil
	}
	tags := wire.Tags{Class: class}
	ctx = metadata.AppendToOutgoingContext(ctx, wire.MetadataKey, string(tags.Append(nil)))
	return t.next.Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty))
}

// patient is how patient callers are here: none gives up during the act.
// Left to itself, Shares would take the one timeout that all have for the mean of
// an exponential patience, and weigh against impatience that there is not.
var patient = share.Patience{{Weight: 1}}

// failed is what a caller is told of an error of a gate or a bench.
func failed(err error) error {
	var refusal *live.Refusal
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return status.FromContextError(err).Err()
	case errors.As(err, &refusal):
		st, bad := status.New(codes.ResourceExhausted, "refused: "+refusal.Reason.String()).
			WithDetails(&errdetails.ErrorInfo{Domain: "spillgate", Reason: strings.ToUpper(refusal.Reason.String())})
		if bad == nil {
			return st.Err()
		}
	}
	return status.Error(codes.Unavailable, err.Error())
}

// part waits for a worker and has this server's part of a request done. It returns
// the class that the request had.
func (t *shop) part(ctx context.Context, method string, goesOn bool) (work.Class, error) {
	arrived := time.Now()
	request := live.Request{Key: t.key(method)}
	if t.shares != nil {
		// The servers of a shop believe each other about classes.
		request.Class = claimed(ctx)
		if method == checkoutMethod {
			t.told.Store(request.Class == work.Interactive)
		}
	}
	ticket, err := t.gate.Enter(ctx, request)
	if err != nil {
		return work.Default, err
	}
	err = t.bench.work(ctx, arrived)
	if goesOn {
		ticket.Did(share.Course{Hops: 1}) // at least: how many come after the next one is the next one's affair
	}
	ticket.Leave(endOf(err))
	class, _ := ticket.Class()
	return class, err
}

func (t *shop) key(method string) share.Key { return share.Key{Callee: t.cfg.Name, Method: method} }

func endOf(err error) work.Outcome {
	if err != nil {
		return work.Ignored
	}
	return work.Done
}

// claimed is the class that the caller of a request says it has.
func claimed(ctx context.Context) work.Class {
	values := metadata.ValueFromIncomingContext(ctx, wire.MetadataKey)
	if len(values) != 1 {
		return work.Default
	}
	tags, err := wire.ParseTags([]byte(values[0]))
	if err != nil {
		return work.Default
	}
	return tags.Class
}

func (t *shop) weighing(d share.Decision) *Weighing {
	verdict := func(method string) Verdict {
		v := t.shares.Explain(t.key(method))
		if method == checkoutMethod && t.told.Load() {
			return Verdict{Class: work.Interactive.String(), Why: ByCaller, Seen: v.Seen}
		}
		return Verdict{Class: v.Class.String(), Why: v.Why.String(), Seen: v.Seen}
	}
	return &Weighing{
		Server: t.cfg.Name, At: time.Now(), Weight: d.Weight, Want: d.Want, Reason: d.Reason.String(),
		Checkout: verdict(checkoutMethod), Read: verdict(readMethod),
	}
}

func (t *shop) report() *Report {
	r := reportOf(t.cfg.Name, t.gate)
	r.Inside = int(t.inside.Load()) // those whose next server works on them too
	return r
}

// bench is the workers of a server. Its callers are never more than the workers: it is for the
// order of requests to decide who waits, and not for the machine.
type bench struct {
	mean  time.Duration
	sleep *service.Station

	mu     sync.Mutex
	random *rand.Rand
	idle   service.Bench
}

func newBench(workers int, mean time.Duration, seed uint64) (*bench, error) {
	sleep, err := service.New(service.Config{Mean: mean}) // without a limit: a precise sleep
	if err != nil {
		return nil, err
	}
	return &bench{mean: mean, sleep: sleep, random: rand.New(rand.NewPCG(seed, 0x3c6ef372fe94f82b)), idle: service.NewBench(workers)}, nil
}

// work does the work of a request that arrived at an instant. The end of ctx does
// not end it: no server stops what it has begun.
func (b *bench) work(ctx context.Context, arrived time.Time) error {
	b.mu.Lock()
	ended := b.idle.Take(arrived).Add(time.Duration(b.random.ExpFloat64() * float64(b.mean)))
	b.mu.Unlock()
	err := b.sleep.DoFor(context.WithoutCancel(ctx), time.Until(ended))
	b.mu.Lock()
	b.idle.Give(ended)
	b.mu.Unlock()
	return err
}
