package node

import (
	"strconv"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// Process is a process as its replies name it. It does not change.
type Process struct {
	// Number is what the process calls itself, never 0.
	Number uint64
	// Service is its service.
	Service string
	name    string
}

// NewProcess returns the process with a number other than 0, of a service.
func NewProcess(number uint64, service string) *Process {
	return &Process{number, service, processName(number)}
}

// processName is how a process is called where names are wanted.
func processName(number uint64) string { return strconv.FormatUint(number, 16) }

// Callee is a server as a driver knows it, by its address. Values are compared.
type Callee interface {
	// Who returns the process that answered last there, nil before any did.
	Who() *Process
	// Asks reports whether the driver can ask it for a rate without a request.
	Asks() bool
}

// caller is a process that sends requests here, as the rates have it. service is
// known of one that is called from here as well.
type caller struct {
	of               uint64
	service, process string
	// peer is the number that the rates gave these names last.
	peer rates.Peer
}

// callersKept is how many callers are remembered by number, per peer that the
// rates tell apart. Beyond it all are forgotten; those that still call come back.
const callersKept = 2

func (n *Node) caller(a *rates.Adapter, number uint64) *caller {
	recent := &n.recent[number%uint64(len(n.recent))]
	if c := *recent; c != nil && c.of == number {
		return c
	}
	c := n.callers[number]
	if c == nil {
		if len(n.callers) >= callersKept*a.Config().MaxPeers {
			clear(n.callers)
			clear(n.recent[:])
		}
		c = &caller{of: number, process: processName(number)}
		n.callers[number] = c
	}
	*recent = c
	return c
}

// peer returns the number that the rates have for a process that sends requests here or, with its service, is called
// from here. A process that does both is one process to them.
func (n *Node) peer(now mono.Time, number uint64, service string) rates.Peer {
	a := n.adapterAt(now)
	c := n.caller(a, number)
	if service != "" && c.service != service {
		c.service, c.peer = service, 0
	}
	return c.number(now, a)
}

// number returns the number that the rates have for c.
func (c *caller) number(now mono.Time, a *rates.Adapter) rates.Peer {
	if !a.Knows(c.peer) {
		c.peer = a.Peer(now, c.service, c.process)
	}
	return c.peer
}

// Call counts a call that the request of t makes to a process, and returns the
// demand that travels with it, in requests/s. attempt counts retries of the call
// from 0. Without rates, and for a call of the process to itself, it does nothing.
func (n *Node) Call(now mono.Time, t *admission.Ticket, to *Process, attempt int) (claim float64) {
	if !n.rated || to.Number == n.number {
		return 0
	}
	return n.gate.Call(now, t, n.peer(now, to.Number, to.Service), attempt)
}

// OnAnswer takes what the answer to a call for t said: the callee's rate, and
// whether it refused. The callee has answered, so Who knows it.
func (n *Node) OnAnswer(now mono.Time, t *admission.Ticket, from Callee, f *baseline.Feedback) {
	who := from.Who()
	if l, ok := n.door.(baseline.Listener); ok {
		l.OnAnswer(now, t.Workflow, who.Service, *f)
	}
	if !n.rated || who.Number == n.number {
		return
	}
	// What was refused further down was counted there.
	refused := f.Shed() && f.Reason != work.Downstream
	n.gate.OnAnswer(now, t, n.peer(now, who.Number, who.Service), rateOf(f), refused)
	n.hear(now, subject{t.Workflow, from}, f.HasRate)
}

func rateOf(f *baseline.Feedback) float64 {
	if f.HasRate {
		return f.Rate
	}
	return rates.NoLimit
}
