package live

import (
	"context"
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/work"
)

// A context that ends with a cause of its own ended by its deadline, or was cancelled, all the same: the refusal says so, and has
// both errors.
func TestContextsWithACause(t *testing.T) {
	mine := errors.New("mine")
	wallet, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	gate := newGate(t, 1, GateConfig{})
	defer enter(t, gate, Request{}).Leave(work.Done)
	resource, err := NewResource(ResourceConfig{Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer resource.Close()
	hold, err := resource.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	waits := map[string]func(ctx context.Context) error{
		"wallet":   func(ctx context.Context) error { _, err := wallet.Acquire(ctx); return err },
		"gate":     func(ctx context.Context) error { _, err := gate.Enter(ctx, Request{}); return err },
		"resource": func(ctx context.Context) error { _, err := resource.Acquire(ctx, 0); return err },
	}
	for name, wait := range waits {
		for _, timed := range []bool{true, false} {
			ctx, stop := context.WithCancelCause(t.Context())
			end, reason := context.Canceled, work.Canceled
			if timed {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(t.Context(), 20*time.Millisecond, mine)
				defer cancel()
				if end, reason = context.DeadlineExceeded, work.Expired; name == "wallet" {
					reason = work.WalletExpired
				}
			} else {
				time.AfterFunc(20*time.Millisecond, func() { stop(mine) })
			}
			err := wait(hasty{ctx})
			stop(nil)
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != reason || !errors.Is(err, end) || !errors.Is(err, mine) {
				t.Errorf("%s, deadline %v: %+v; expected %v with %v and the cause", name, timed, refusal, reason, end)
			}
		}
	}
}

// hasty is a context that does not say when it will end.
type hasty struct{ context.Context }

// Deadline implements context.Context.
func (hasty) Deadline() (time.Time, bool) { return time.Time{}, false }

// A deadline without a monotonic reading is as far away as it was when the clock of the calendar was set since the process began.
func TestInstantsOfTheCalendar(t *testing.T) {
	const hour = 3600 << 30 // in the word of a Time that has the seconds of the calendar beside its monotonic reading
	for _, ahead := range []bool{true, false} {
		origin := origin
		if word := (*uint64)(unsafe.Pointer(&origin)); ahead { // as if the calendar had been an hour ahead then
			*word += hour
		} else {
			*word -= hour
		}
		for _, away := range []time.Duration{time.Second, -time.Second} {
			for _, at := range []time.Time{time.Now().Add(away), time.Now().Add(away).Round(0)} {
				if got := instant(at, origin).Sub(Now()); (got - away).Abs() > 10*time.Minute {
					t.Errorf("%v is %v away, expected %v", at, got, away)
				}
			}
		}
	}
	if far := Instant(time.Now().AddDate(1000, 0, 0).Round(0)); far.Sub(Now()) < 100*365*24*time.Hour {
		t.Errorf("in a thousand years is %v away", far.Sub(Now()))
	}
}
