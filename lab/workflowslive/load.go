package workflowslive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/wire"
)

// connsEach is the number of the generator's connections to each front end.
const connsEach = 4

// measured is what became of one workflow's requests.
type measured struct {
	Result measure.Result `json:"result"`
	// Stretches are those of the setting.
	Stretches []measure.Span `json:"stretches"`
}

// generate sends what a setting says to the front ends, and returns what became
// of it, by workflow.
func generate(ctx context.Context, s *setting, fronts []string) ([]measured, error) {
	var conns []*grpc.ClientConn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for range connsEach {
		for _, addr := range fronts {
			conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return nil, err
			}
			conns = append(conns, conn)
		}
	}
	if err := first(ctx, conns); err != nil {
		return nil, err
	}
	generators := make([]*openloop.Generator, len(s.Flows))
	for f := range s.Flows {
		arrivals, err := openloop.Poisson(s.Flows[f].Profile, s.Seed*uint64(len(s.Flows))+uint64(f))
		if err != nil {
			return nil, err
		}
		tags := metadata.Pairs(wire.MetadataKey, string(wire.Tags{Workflow: s.Flows[f].Name}.Append(nil)))
		send := func(ctx context.Context, i int, intended time.Time) measure.Outcome {
			ctx, cancel := context.WithDeadline(metadata.NewOutgoingContext(ctx, tags), intended.Add(s.Deadline))
			defer cancel()
			body, err := json.Marshal(s.plan(f, i))
			if err != nil {
				return measure.Outcome{Kind: measure.Failed, Reason: err.Error()}
			}
			return outcome(call(ctx, conns[i%len(conns)], body))
		}
		if generators[f], err = openloop.New(openloop.Config{Arrivals: arrivals, Send: send, SLO: s.Deadline, Drain: s.Deadline}); err != nil {
			return nil, err
		}
	}
	runtime.GC() // none is due during the run
	out := make([]measured, len(s.Flows))
	failed := make(chan error, len(s.Flows))
	for f, g := range generators {
		go func() {
			var err error
			out[f].Result, err = g.Run(ctx)
			for _, part := range s.Stretches {
				out[f].Stretches = append(out[f].Stretches, g.Recorder().Span(part.From, part.To))
			}
			failed <- err
		}()
	}
	var errs []error
	for range generators {
		errs = append(errs, <-failed)
	}
	return out, errors.Join(errs...)
}

// first has each connection carry one call through all tiers, so that none is made
// for the first time in the run.
func first(ctx context.Context, conns []*grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for i, conn := range conns {
		p := plan{PS: i / tierSize % tierSize}
		for en := range tierSize {
			p.Reads = append(p.Reads, read{EN: en})
		}
		body, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if err := call(ctx, conn, body); err != nil {
			return fmt.Errorf("workflowslive: the first call: %w", err)
		}
	}
	return nil
}

// The reasons of refusals, as the generator tells them apart.
const (
	atEntry = "at the entry"
	further = "further down"
)

func outcome(err error) measure.Outcome {
	if err == nil {
		return measure.Outcome{Kind: measure.Served}
	}
	s := status.Convert(err)
	where := atEntry
	if strings.HasPrefix(s.Message(), below) {
		where = further
	}
	switch {
	case s.Code() == codes.ResourceExhausted || s.Code() == codes.Unavailable:
		return measure.Outcome{Kind: measure.Refused, Reason: where}
	case s.Code() == codes.DeadlineExceeded && strings.Contains(s.Message(), "refused"):
		return measure.Outcome{Kind: measure.Refused, Reason: where}
	case s.Code() == codes.DeadlineExceeded:
		return measure.Outcome{Kind: measure.TimedOut}
	}
	return measure.Outcome{Kind: measure.Failed, Reason: s.Code().String()}
}
