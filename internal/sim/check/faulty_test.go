package check_test

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/sim/check"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// unfair is a door that runs its second waiter first, now and then.
type unfair struct {
	*node.Node
	held *admission.Ticket
	n    int
}

func (u *unfair) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	if t := u.held; t != nil {
		u.held = nil
		return t, admission.Run
	}
	t, v := u.Node.Next(now)
	if t == nil || v != admission.Run {
		return t, v
	}
	if u.n++; u.n%5 == 0 {
		if second, v := u.Node.Next(now); second != nil {
			u.held = t
			return second, v
		}
	}
	return t, v
}

// forgetful is a door that gives a slot back and does not end the ticket, so that
// its credit stays pending.
type forgetful struct{ *node.Node }

func (f forgetful) Leave(now mono.Time, t *admission.Ticket, _ work.Outcome) {
	f.Gate().Slots().Release(now, t.Started(), slots.Place{}, true)
}

// TestCheckerSees plants mistakes in the door, each of which some world of the
// swarm must show.
func TestCheckerSees(t *testing.T) {
	for _, tt := range []struct {
		name string
		door func(*node.Node) baseline.Door
		want string
	}{
		{"out of order", func(n *node.Node) baseline.Door { return &unfair{Node: n} }, "came earlier"},
		{"a ticket never left", func(n *node.Node) baseline.Door { return forgetful{n} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 40; seed++ {
				play := check.Random(seed)
				inner := play.Control.Door
				play.Control.Door = func(seed uint64, at mesh.Place) (baseline.Door, error) {
					d, err := inner(seed, at)
					if err != nil {
						return nil, err
					}
					return tt.door(d.(*node.Node)), nil
				}
				w, watch, err := play.Start()
				if err != nil {
					t.Fatal(err)
				}
				for w.Step() && watch.Err() == nil {
				}
				if err := watch.Err(); err != nil && strings.Contains(err.Error(), tt.want) {
					return
				}
			}
			t.Error("no check of 40 worlds saw it")
		})
	}
}
