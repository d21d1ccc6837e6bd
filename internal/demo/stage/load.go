package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/internal/harness/capacity"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// Load describes one run of the load: a search for the capacity if Try is set,
// else the steps.
type Load struct {
	Target string `json:"target"`
	// Conns is how many connections carry the requests, in turn.
	Conns int `json:"conns"`
	// Gated gives each connection a wallet.
	Gated bool `json:"gated"`
	// Objective is the latency objective, Timeout when a caller gives up; both
	// count from the instant at which a request was meant to leave.
	Objective time.Duration `json:"objective_ns"`
	Timeout   time.Duration `json:"timeout_ns"`
	// Seed decides when each request leaves.
	Seed uint64 `json:"seed"`

	// Try is the length of one try of the search, Retake of the one that counts.
	Try    time.Duration `json:"try_ns,omitempty"`
	Retake time.Duration `json:"retake_ns,omitempty"`
	// Steps are the load, in requests a second.
	Steps openloop.Profile `json:"steps,omitempty"`
	// Tenants, if there are any, each have a load of their own instead, all at
	// once, over Conns connections each.
	Tenants []Tenant `json:"tenants,omitempty"`
	// Flows, if there are any, are requests to a shop instead, all at once, each over
	// Conns connections to each of its targets. Target and Gated do not matter.
	Flows []Flow `json:"flows,omitempty"`
	// ReportAt, if above 0, is when one report is asked for beside the steps, of a store
	// with a lock.
	ReportAt time.Duration `json:"report_at_ns,omitempty"`
	// Feed, if not nil, makes the steps messages by a broker. Conns and Gated do not
	// matter.
	Feed *Feed `json:"feed,omitempty"`
	// tenant is whose requests these are, or the flow's name; empty without both.
	tenant string
	// times is how long requests took; nil but for flows.
	times *times
}

// Try is one try of the search for the capacity.
type Try struct {
	// InFlight is the number of requests kept in flight, 0 for an open loop of
	// Load requests a second.
	InFlight int     `json:"in_flight"`
	Load     float64 `json:"load"`
	// Goodput is answers within the objective a second, Attainment their share.
	Goodput    float64 `json:"goodput"`
	Attainment float64 `json:"attainment"`
	P99MS      float64 `json:"p99_ms"`
}

// Capacity is the result of the search.
type Capacity struct {
	Rate float64 `json:"rate"` // requests a second
	// Doubt says why the rate may be wrong; empty if nothing was found.
	Doubt string `json:"doubt,omitempty"`
}

const (
	// window is the resolution of the recording; every length in the demo is a
	// whole number of them.
	window = 50 * time.Millisecond
	// progressEvery is how often the load tells how it goes, and so the distance
	// of two points.
	progressEvery = 250 * time.Millisecond
	// span is what a point looks back on: long enough for a 99th percentile
	// among some hundred requests.
	span = 500 * time.Millisecond
)

func (l Load) validate() error {
	var errs []error
	if l.Conns < 1 && l.Feed == nil {
		errs = append(errs, fmt.Errorf("demo: %d connections, expected at least 1", l.Conns))
	}
	if l.Objective <= 0 || l.Timeout < l.Objective {
		errs = append(errs, fmt.Errorf("demo: objective %v and timeout %v, expected above 0 and not below the objective", l.Objective, l.Timeout))
	}
	if length := l.Steps.Duration(); l.ReportAt < 0 || l.ReportAt > 0 && l.ReportAt >= length {
		errs = append(errs, fmt.Errorf("demo: a report is asked for at %v, expected within the steps of %v", l.ReportAt, length))
	}
	switch {
	case l.Try > 0:
	case len(l.Tenants) > 0 && len(l.Flows) > 0:
		errs = append(errs, errors.New("demo: there are tenants and flows, expected one of them"))
	case len(l.Tenants) > 0:
		errs = append(errs, l.validateTenants())
	case len(l.Flows) > 0:
		errs = append(errs, l.validateFlows())
	case l.Feed != nil:
		errs = append(errs, l.Feed.validate(l.Steps))
	default:
		errs = append(errs, l.Steps.Validate())
	}
	return errors.Join(errs...)
}

// run connects and makes the run.
func (l Load) run(ctx context.Context, out *writer) error {
	if err := l.validate(); err != nil {
		return err
	}
	if l.Try == 0 && l.Feed != nil {
		return l.feed(ctx, out)
	}
	if l.Try == 0 && len(l.Tenants)+len(l.Flows) > 0 {
		prepare := l.tenants
		if len(l.Flows) > 0 {
			prepare = l.flows
		}
		runs, hangUp, err := prepare(ctx)
		defer hangUp()
		if err != nil {
			return err
		}
		return together(ctx, runs, out)
	}
	conns, err := l.connect(ctx)
	defer hangUp(conns)
	if err != nil {
		return err
	}
	local := newTally()
	send := l.sender(conns, local)
	if l.Try > 0 {
		return l.search(ctx, send, out)
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if l.ReportAt > 0 {
		asking.Go(func() { l.ask(ctx, conns[0], out) })
	}
	return l.play(ctx, send, local, out)
}

// sender returns what sends one request, on each connection in turn. What ends
// before it was sent is counted in local.
func (l Load) sender(conns []*grpc.ClientConn, local *tally) openloop.Send {
	return func(ctx context.Context, i int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(l.tagged(ctx), intended.Add(l.Timeout))
		defer cancel()
		err := conns[i%len(conns)].Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty))
		return outcomeOf(err, local)
	}
}

// tagged returns a context whose requests name their tenant.
func (l Load) tagged(ctx context.Context) context.Context {
	if l.tenant == "" {
		return ctx
	}
	return live.WithTags(ctx, wire.Tags{Workflow: l.tenant})
}

func hangUp(conns []*grpc.ClientConn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// dialPatience only ends a demo that hangs: connecting takes seconds on a busy machine.
const dialPatience = time.Minute

// connect opens the connections to the entry.
func (l Load) connect(ctx context.Context) ([]*grpc.ClientConn, error) {
	return dial(l.tagged(ctx), l.Target, l.Conns, method, dialOptions(l.Gated)...)
}

// dial opens connections and sends one request on each, so that no handshake falls
// into the run; a refusal is an answer as well. What it opened it returns also with an error.
func dial(ctx context.Context, target string, n int, method string, options ...grpc.DialOption) ([]*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	conns := make([]*grpc.ClientConn, 0, n)
	for range n {
		c, err := grpc.NewClient("passthrough:///"+target, options...)
		if err != nil {
			return conns, fmt.Errorf("demo: %w", err)
		}
		conns = append(conns, c)
		c.Connect()
	}
	for i, c := range conns {
		for state := c.GetState(); state != connectivity.Ready; state = c.GetState() {
			if !c.WaitForStateChange(ctx, state) {
				return conns, fmt.Errorf("demo: connection %d to %s is %v: %w", i, target, state, ctx.Err())
			}
		}
		if err := c.Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty)); err != nil && outcomeOf(err, newTally()).Kind != measure.Refused {
			return conns, fmt.Errorf("demo: the first request on connection %d: %w", i, err)
		}
	}
	return conns, nil
}

// outcomeOf says how a call ended, and counts it in local if it ended before it
// was sent.
func outcomeOf(err error, local *tally) measure.Outcome {
	if err == nil {
		return measure.Outcome{Kind: measure.Served}
	}
	var refusal *live.Refusal
	if errors.As(err, &refusal) {
		local.add(refusal.Reason.String())
		return measure.Outcome{Kind: measure.Refused, Reason: refusal.Reason.String()}
	}
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "spillgate" {
			return measure.Outcome{Kind: measure.Refused, Reason: strings.ToLower(info.Reason)}
		}
	}
	if st.Code() == codes.DeadlineExceeded {
		return measure.Outcome{Kind: measure.TimedOut}
	}
	return measure.Outcome{Kind: measure.Failed, Reason: st.Code().String()}
}

// tally counts by name. Safe for concurrent use.
type tally struct {
	mu sync.Mutex
	n  map[string]uint64
}

func newTally() *tally { return &tally{n: map[string]uint64{}} }

func (t *tally) add(name string) {
	t.mu.Lock()
	t.n[name]++
	t.mu.Unlock()
}

// all returns a copy.
func (t *tally) all() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]uint64, len(t.n))
	for name, n := range t.n {
		out[name] = n
	}
	return out
}

// search finds the capacity.
func (l Load) search(ctx context.Context, send openloop.Send, out *writer) error {
	found, err := capacity.Find(ctx, capacity.Config{
		Send: send, SLO: l.Objective, Try: l.Try, Retake: l.Retake, Seed: l.Seed,
		OnTry: func(t capacity.Try) {
			out.line(Line{Try: &Try{
				InFlight: t.Concurrency, Load: t.Load, Goodput: t.Result.Goodput,
				Attainment: t.Result.Attainment, P99MS: milliseconds(t.Result.Latency.P99),
			}})
		},
	})
	if err != nil {
		return err
	}
	c := &Capacity{Rate: found.Rate}
	if found.Unconfirmed {
		c.Doubt = "the open-loop check was late itself each time, so this is the closed loop's figure alone"
	}
	out.line(Line{Capacity: c})
	return nil
}
