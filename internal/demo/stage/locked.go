package stage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/tracer"
)

// Locked describes a store with one lock. A read holds it for a moment, a report for
// so long that no read succeeds meanwhile.
type Locked struct {
	Name string `json:"name"`
	// Gated puts a gate in front of the store that cancels who keeps the others
	// waiting, and tells it who holds the lock. Without it the lock is a plain one.
	Gated     bool          `json:"gated"`
	Objective time.Duration `json:"objective_ns"`
	// Read and Report are how long either holds the lock.
	Read   time.Duration `json:"read_ns"`
	Report time.Duration `json:"report_ns"`
}

// Named is a request that a store's gate named as the culprit.
type Named struct {
	At time.Time `json:"at"`
	// Kind is its method, Resource what it held.
	Kind     string `json:"kind"`
	Resource string `json:"resource"`
	// AgeMS is how long it had been there, Victims how many waited for it, and Score
	// its part of the time that they lost, 0 to 1.
	AgeMS   float64 `json:"age_ms"`
	Victims float64 `json:"victims"`
	Score   float64 `json:"score"`
	// Cancelled is false if it had ended before it could be cancelled.
	Cancelled bool `json:"cancelled"`
}

// reportMethod asks for the report of a store with a lock; its reads are method.
const reportMethod = "/" + serviceName + "/Report"

// locked is a running store.
type locked struct {
	cfg    Locked
	gate   *live.Gate     // nil without gates
	tracer *tracer.Tracer // nil without gates
	lock   *tracer.Mutex
	inside atomic.Int64
}

func (s Locked) validate() error {
	var errs []error
	if s.Objective <= 0 {
		errs = append(errs, fmt.Errorf("demo: %s: objective is %v, expected above 0", s.Name, s.Objective))
	}
	if s.Read <= 0 || s.Report <= s.Read {
		errs = append(errs, fmt.Errorf("demo: %s: a read holds the lock for %v and a report for %v, expected above 0, and longer", s.Name, s.Read, s.Report))
	}
	return errors.Join(errs...)
}

// run serves until ctx ends.
func (s Locked) run(ctx context.Context, out *writer) error {
	if err := s.validate(); err != nil {
		return err
	}
	t := &locked{cfg: s}
	options, err := t.open(out)
	defer t.close()
	if err != nil {
		return err
	}
	hold := func(d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return t.hold(ctx, d) }
	}
	desc := describe(serviceName, answer{"Do", hold(s.Read)}, answer{"Report", hold(s.Report)})
	return serve(ctx, out, s.Name, options, s.Gated, desc, t.report)
}

// open makes the gate and the lock, and returns the server's options.
func (t *locked) open(out *writer) ([]grpc.ServerOption, error) {
	if !t.cfg.Gated {
		t.lock = t.tracer.NewMutex("store's lock") // a nil tracer's lock is a lock
		return nil, nil
	}
	var err error
	t.gate, err = live.NewGate(live.GateConfig{
		Config: admission.Config{Objective: t.cfg.Objective},
		Culprit: live.CulpritConfig{Mode: culprit.Enforce, Notify: func(n live.CulpritNotice) {
			if n.Step != culprit.NoStep {
				out.line(Line{Named: &Named{
					At: time.Now(), Kind: n.Kind, Resource: n.Resource, AgeMS: milliseconds(n.Age),
					Victims: n.Victims, Score: n.Score, Cancelled: !n.Would,
				}})
			}
		}},
	})
	if err != nil {
		return nil, err
	}
	if t.tracer, err = tracer.Of(t.gate, tracer.Config{}); err != nil {
		return nil, fmt.Errorf("demo: %s: nobody would know who holds the lock: %w", t.cfg.Name, err)
	}
	t.lock = t.tracer.NewMutex("store's lock")
	return grpcgate.ServerOptions(t.gate, grpcgate.WithTrust(grpcgate.Everyone)), nil
}

func (t *locked) close() {
	if t.gate != nil {
		_ = t.gate.Close()
	}
	if t.tracer != nil {
		_ = t.tracer.Close()
	}
}

// hold serves one request: it takes the lock, and keeps it for so long or until its
// context ends.
func (t *locked) hold(ctx context.Context, d time.Duration) error {
	t.inside.Add(1)
	defer t.inside.Add(-1)
	if err := t.lock.Lock(ctx); err != nil {
		return ended(ctx, err)
	}
	defer t.lock.Unlock(ctx)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx, context.Cause(ctx))
	}
}

// ended returns the error of a request whose context ended for a cause.
func ended(ctx context.Context, cause error) error {
	if errors.Is(cause, ctx.Err()) {
		return status.FromContextError(cause).Err()
	}
	return cause // the gate knows what it told the request
}

func (t *locked) report() *Report {
	r := reportOf(t.cfg.Name, t.gate)
	if t.gate == nil {
		r.Inside = int(t.inside.Load())
	}
	return r
}

// Asked is what became of the report that a load asked for.
type Asked struct {
	// At is when it was asked for, in seconds since the load began, and TookMS when
	// its caller knew.
	At     float64 `json:"at"`
	TookMS float64 `json:"took_ms"`
	// End is Answered, Cancelled, or why there was no answer.
	End string `json:"end"`
}

// Answered is the end of a report that was made, Cancelled that of a culprit's.
const (
	Answered  = "answered"
	Cancelled = "cancelled"
)

// askAgain is after how long a report is asked for again that was refused before it
// began.
const askAgain = 20 * time.Millisecond

// ask asks for the report when the load has been going for so long, and tells what
// became of it. A report that was cancelled is not asked for again.
func (l Load) ask(ctx context.Context, conn *grpc.ClientConn, out *writer) {
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(l.Steps.Duration()+l.Timeout))
	defer cancel()
	select {
	case <-time.After(l.ReportAt):
	case <-ctx.Done():
		return
	}
	asked := time.Now()
	for {
		err := conn.Invoke(ctx, reportMethod, new(emptypb.Empty), new(emptypb.Empty))
		o := outcomeOf(err, newTally())
		cancelled := status.Code(err) == codes.Aborted
		if o.Kind == measure.Refused && !cancelled {
			select {
			case <-time.After(askAgain):
				continue
			case <-ctx.Done():
			}
		}
		end := o.Reason
		switch {
		case err == nil:
			end = Answered
		case cancelled:
			end = Cancelled
		case end == "":
			end = "timed out"
		}
		out.line(Line{Asked: &Asked{At: asked.Sub(began).Seconds(), TookMS: milliseconds(time.Since(asked)), End: end}})
		return
	}
}
