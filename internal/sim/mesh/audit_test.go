package mesh_test

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/work"
)

// forgetful is a door that now and then does not end a ticket.
type forgetful struct {
	*node.Node
	n *int
}

func (f forgetful) Leave(now mono.Time, t *admission.Ticket, o work.Outcome) {
	if *f.n++; *f.n%20 != 0 {
		f.Node.Leave(now, t, o)
	}
}

// repeating is a door that now and then lets a ticket run that runs already.
type repeating struct {
	*node.Node
	last *admission.Ticket
	n    int
}

func (r *repeating) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	if r.n++; r.n%20 == 0 && r.last != nil && r.last.Running() {
		return r.last, admission.Run
	}
	t, v := r.Node.Next(now)
	if v == admission.Run && t != nil {
		r.last = t
	}
	return t, v
}

// TestAuditSees plants mistakes in doors, which Audit must report.
func TestAuditSees(t *testing.T) {
	for _, tt := range []struct {
		name string
		door func(*node.Node) baseline.Door
		want string
	}{
		{"a ticket never left", func(n *node.Node) baseline.Door { return forgetful{n, new(int)} }, "the door says"},
		{"a ticket runs twice", func(n *node.Node) baseline.Door { return &repeating{Node: n} }, "by their state"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			services, flows := chain(1, 100*ms)
			c := mesh.Credits()
			inner := c.Door
			c.Door = func(seed uint64, at mesh.Place) (baseline.Door, error) {
				d, err := inner(seed, at)
				if err != nil {
					return nil, err
				}
				return tt.door(d.(*node.Node)), nil
			}
			var broken error
			w, err := mesh.New(mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: c,
				Groups: []mesh.Group{{Load: mesh.Constant(3000)}}, Length: 500 * ms,
				Event: func(w *mesh.World) { broken = w.Audit() }})
			if err != nil {
				t.Fatal(err)
			}
			for broken == nil && w.Step() {
			}
			if broken == nil || !strings.Contains(broken.Error(), tt.want) {
				t.Errorf("the audit says %v, expected a mention of %q", broken, tt.want)
			}
		})
	}
}
