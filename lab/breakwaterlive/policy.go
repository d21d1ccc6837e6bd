package breakwaterlive

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/lab/contenders"
)

// The policies: no control, Spillgate, and those of the paper beside a fixed limit and a
// first-in-first-out queue that drops what is too late.
const (
	nothing   = "none"
	spilling  = contenders.Name
	semaphore = "semaphore"
)

func policies() []string {
	return []string{spilling, "dagor", "seda", semaphore, "deadline fifo", nothing}
}

// tuning is what peers are tuned for.
type tuning struct {
	SLO, Mean time.Duration
	// Capacity is that of the station, in requests/s.
	Capacity float64
}

// control returns a peer. The thresholds that the authors of Breakwater published are for a
// round trip of 10 µs; in proportion to the SLO, which those for 100 µs are for 1,100 µs of,
// they suit this transport.
func (t *tuning) control(name string) (mesh.Control, error) {
	s := contenders.Setting{Objective: t.SLO, Cores: 1, Service: max(t.SLO/11, 30*time.Microsecond), Live: true}
	if name == semaphore {
		return contenders.Semaphore(s, 1, max(int(t.Capacity*t.SLO.Seconds()/2), 1)), nil
	}
	for _, c := range contenders.Peers(s) {
		if c.Name == name {
			return c, nil
		}
	}
	return mesh.Control{}, fmt.Errorf("breakwaterlive: the policy is %q, expected one of %q", name, policies())
}

// gate returns what stands in front of the station, nil if nothing does, and the level that
// is to be told, nil if there is none.
func (t *tuning) gate(name string, seed uint64) (*spillgate.Gate, *leveled, error) {
	switch name {
	case nothing:
		return nil, nil, nil
	case spilling:
		gate, err := spillgate.New(t.SLO)
		return gate, nil, err
	}
	control, err := t.control(name)
	if err != nil {
		return nil, nil, err
	}
	door, err := control.Door(seed, mesh.Place{Service: "station", Workers: 1, Objective: t.SLO})
	if err != nil {
		return nil, nil, err
	}
	l := &leveled{Door: door}
	gate := live.NewGateOf(l, t.SLO)
	if !control.Ranked {
		l = nil
	}
	return gate, l, nil
}

// outlet returns what holds the calls of a client back, nil if nothing does, and whether the
// policy needs ranks.
func (t *tuning) outlet(name string, seed uint64, client int) (*live.Outlet, bool, error) {
	if name == nothing || name == spilling {
		return nil, false, nil
	}
	control, err := t.control(name)
	if err != nil || control.Sender == nil {
		return nil, false, err
	}
	sender, err := control.Sender(seed, mesh.Place{Process: client}, mesh.Place{Service: "station"})
	if err != nil {
		return nil, false, err
	}
	return live.NewOutlet(sender, nil), control.Ranked, nil
}

// leveled notes the level that a policy put on its last reply.
type leveled struct {
	baseline.Door
	level atomic.Int64
}

// Feedback implements baseline.Door.
func (d *leveled) Feedback(now mono.Time, t *admission.Ticket) baseline.Feedback {
	f := d.Door.Feedback(now, t)
	d.level.Store(int64(f.Level))
	return f
}
