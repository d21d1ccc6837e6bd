package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// Flow is the requests of one kind to a shop.
type Flow struct {
	// Name is that of the kind: Checkouts or Reads.
	Name string `json:"name"`
	// Targets are the servers to which its requests go, each to one of them, by
	// chance.
	Targets []string `json:"targets"`
	// Steps are its load, in requests a second.
	Steps openloop.Profile `json:"steps"`
}

// The names of the flows.
const (
	Checkouts = "checkouts"
	Reads     = "reads"
)

// methods are what the requests of a flow ask for.
var methods = map[string]string{Checkouts: checkoutMethod, Reads: readMethod}

func (l Load) validateFlows() error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range l.Flows {
		if methods[f.Name] == "" || seen[f.Name] {
			errs = append(errs, fmt.Errorf("demo: a flow is called %.80q, expected %s or %s, once", f.Name, Checkouts, Reads))
		}
		seen[f.Name] = true
		if len(f.Targets) == 0 {
			errs = append(errs, fmt.Errorf("demo: %.80s have no targets, expected the address of a server at least", f.Name))
		}
		if err := f.Steps.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("demo: %.80s: %w", f.Name, err))
		}
	}
	return errors.Join(errs...)
}

// flows prepares a run of all flows.
func (l Load) flows(ctx context.Context) ([]run, func(), error) {
	var runs []run
	var all []*grpc.ClientConn
	closeAll := func() { hangUp(all) }
	for i, f := range l.Flows {
		own := l
		own.tenant, own.Steps, own.Flows, own.times = f.Name, f.Steps, nil, &times{}
		own.Seed += uint64(i) * seedStep
		local := newTally()
		var conns [][]*grpc.ClientConn
		for _, target := range f.Targets {
			to, err := dial(ctx, target, l.Conns, methods[f.Name], grpc.WithTransportCredentials(insecure.NewCredentials()))
			all = append(all, to...)
			if err != nil {
				return nil, closeAll, err
			}
			conns = append(conns, to)
		}
		runs = append(runs, run{own, own.shopper(conns, methods[f.Name], local), local})
	}
	return runs, closeAll, nil
}

// shopper returns what sends one request to a server that chance picks, and takes
// its time.
func (l Load) shopper(conns [][]*grpc.ClientConn, method string, local *tally) openloop.Send {
	return func(ctx context.Context, i int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(ctx, intended.Add(l.Timeout))
		defer cancel()
		to := conns[rand.New(rand.NewPCG(l.Seed, uint64(i))).IntN(len(conns))]
		err := to[i%len(to)].Invoke(ctx, method, new(emptypb.Empty), new(emptypb.Empty))
		o := outcomeOf(err, local)
		if o.Kind == measure.Served {
			l.times.add(intended, time.Since(intended))
		}
		return o
	}
}

// times keeps how long each request took, because means and these percentiles are
// asked for stretches that are known only afterwards. Safe for concurrent use.
type times struct {
	mu  sync.Mutex
	all []took
}

// took is one request that was answered.
type took struct {
	at   time.Time // it was meant to leave
	time time.Duration
}

func (s *times) add(at time.Time, d time.Duration) {
	s.mu.Lock()
	s.all = append(s.all, took{at, d})
	s.mu.Unlock()
}

// meant returns the mean and the 95th percentile, in milliseconds, of the answered
// requests that were meant to leave from one instant until another; 0 if there are
// none. A nil times has none.
func (s *times) meant(from, to time.Time) (mean, p95 float64) {
	return s.of(func(t took) bool { return !t.at.Before(from) && t.at.Before(to) })
}

// answered is meant for requests that were answered from one instant until another:
// right for a stretch that is just over, whose last requests are still under way.
func (s *times) answered(from, to time.Time) (mean, p95 float64) {
	return s.of(func(t took) bool { end := t.at.Add(t.time); return !end.Before(from) && end.Before(to) })
}

func (s *times) of(some func(took) bool) (mean, p95 float64) {
	if s == nil {
		return 0, 0
	}
	s.mu.Lock()
	var found []time.Duration
	var sum time.Duration
	for _, t := range s.all {
		if some(t) {
			found = append(found, t.time)
			sum += t.time
		}
	}
	s.mu.Unlock()
	if len(found) == 0 {
		return 0, 0
	}
	slices.Sort(found)
	return milliseconds(sum / time.Duration(len(found))), milliseconds(found[len(found)*95/100])
}
