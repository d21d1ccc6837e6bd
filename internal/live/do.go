package live

import (
	"context"
	"errors"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Do runs fn through the gate: work that is no request of gRPC or HTTP, such as a message
// of a queue or a job. kind names what fn does, for culprits and in their logs; empty is
// unknown. The workflow, class and priority are those of WithTags, the deadline is that of
// ctx.
//
// A refusal is a *Refusal, and fn was not called. fn's context is ctx's, which also ends if
// the gate cancels fn as a culprit; Do then returns the *Refusal that says so, whatever fn
// returned. Otherwise it returns what fn returned; a *Refusal in it, of work that was
// refused further down, is no success of this gate's.
func (g *Gate) Do(ctx context.Context, kind string, fn func(ctx context.Context) error) error {
	tags := TagsFrom(ctx)
	r := Request{Request: work.Request{Workflow: tags.Workflow, Class: tags.Class, Priority: tags.Priority, Attempt: tags.Attempt, Deadline: mono.Never}}
	if kind != "" {
		r.Kind = doing(kind)
	}
	t, err := g.Enter(ctx, r)
	if err != nil {
		return err
	}
	outcome := work.Ignored // of a panic
	defer func() { t.Leave(outcome) }()
	watched, _ := t.Watch(WithTicket(ctx, t))
	defer t.Unwatch()
	err = fn(watched)
	if refusal := t.Cancelled(); refusal != nil {
		return refusal
	}
	var below *Refusal
	switch {
	case ctx.Err() != nil && err == nil:
		outcome = work.Late // nobody waits for it any more
	case ctx.Err() != nil:
	case errors.As(err, &below):
		outcome = work.Dropped
	default:
		outcome = work.Done
	}
	if err != nil {
		t.Failed()
	}
	return err
}

// doing is the kind of work that Do runs.
type doing string

// Kind implements Kind.
func (d doing) Kind() string { return string(d) }
