package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Work that is no request is admitted, counted, refused and cancelled like one.
func TestDo(t *testing.T) {
	var last Event
	g, err := NewGate(GateConfig{
		Config:  admission.Config{Objective: time.Minute, Slots: slots.Config{Min: 1, Max: 1, Initial: 1}},
		Observe: func(e Event) { last = e },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	own, below := errors.New("own"), &Refusal{Reason: work.Delay}
	ctx := WithTags(t.Context(), wire.Tags{Workflow: "nightly", Class: work.Interactive, Priority: 3})
	for _, tt := range []struct {
		err  error
		want work.Outcome
	}{{nil, work.Done}, {own, work.Done}, {below, work.Dropped}} {
		if err := g.Do(ctx, "job", func(context.Context) error {
			if g.Stats().Running != 1 {
				t.Errorf("%+v", g.Stats())
			}
			return tt.err
		}); err != tt.err {
			t.Errorf("%v, expected %v", err, tt.err)
		}
		if last.Outcome != tt.want || last.Workflow != "nightly" || last.Priority != 3 {
			t.Errorf("%v: %+v, expected %v", tt.err, last, tt.want)
		}
	}
	func() {
		defer func() { recover() }()
		_ = g.Do(ctx, "job", func(context.Context) error { panic("as handlers do") })
	}()
	if s := g.Stats(); s.Running != 0 || last.Outcome != work.Ignored {
		t.Errorf("after a panic: %+v, %+v", s, last)
	}
	left, leave := context.WithCancel(ctx)
	if err := g.Do(left, "job", func(context.Context) error { leave(); return nil }); err != nil || last.Outcome != work.Late {
		t.Errorf("%v, %+v, expected what nobody waits for to be late", err, last)
	}
	var refusal *Refusal
	if err := g.Do(left, "job", func(context.Context) error { t.Error("it ran"); return nil }); !errors.As(err, &refusal) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected a refusal because the caller left", err)
	}
	g.Drain()
	if err := g.Do(ctx, "job", func(context.Context) error { t.Error("it ran"); return nil }); !errors.As(err, &refusal) || refusal.Reason != work.Draining {
		t.Errorf("%v, expected a refusal", err)
	}
}

// Work that holds all slots is cancelled through its context.
func TestDoIsCancelled(t *testing.T) {
	g, err := NewGate(GateConfig{
		Config:  admission.Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Min: 1, Max: 1, Initial: 1}},
		Culprit: CulpritConfig{Mode: culprit.Enforce},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done = make(chan error, 1)
	for range 4 {
		go func() {
			for ctx.Err() == nil {
				if g.Do(ctx, "brief", func(context.Context) error { time.Sleep(time.Millisecond); return nil }) != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}()
	}
	for end := time.Now().Add(time.Minute); g.Stats().Served[work.Done] < 100 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	go func() {
		for ctx.Err() == nil {
			err := g.Do(ctx, "long", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			if errors.Is(err, ErrCancelled) {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Reason != work.Culprit || refusal.Resend.Token == (wire.Token{}) {
			t.Errorf("%v, expected a refusal with a token", err)
		}
	case <-time.After(time.Minute):
		t.Errorf("not cancelled: %+v", g.Stats())
	}
}
