package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// bin is the length of the parts of a report.
const bin = 100 * time.Millisecond

// Look is one process of a service at one instant: what it did since it started, and
// what its gate believes. Fields that a policy has nothing to say of are 0.
type Look struct {
	Service string `json:"service"`
	// Replica counts from 1.
	Replica int `json:"replica"`
	// At is the time since the run began, the end of a bin.
	At time.Duration `json:"at"`
	// Begun, Finished, Wasted and Busy are those of world.ServiceReport.
	Begun    int           `json:"begun"`
	Finished int           `json:"finished"`
	Wasted   int           `json:"wasted"`
	Busy     time.Duration `json:"busy"`
	// Used is the processor time of the process.
	Used time.Duration `json:"used"`
	// Heap and Stacks are what the process holds there, in bytes, after collections: in the
	// look at the end of the load, while the clients are connected. 0 in others.
	Heap   uint64 `json:"heap,omitempty"`
	Stacks uint64 `json:"stacks,omitempty"`
	// Proxy says that it is the proxy in front of the replica.
	Proxy bool `json:"proxy,omitempty"`
	// Shed counts what the gate refused, by reason.
	Shed map[string]uint64 `json:"shed,omitempty"`
	// Limit, Running and Waiting are of the gate's slots and queue; Delay is the
	// queueing delay that it sees, Lag how long bytes lie in sockets, Takes what it
	// thinks a request takes alone.
	Limit   int           `json:"limit"`
	Running int           `json:"running"`
	Waiting int           `json:"waiting"`
	Delay   time.Duration `json:"delay"`
	Lag     time.Duration `json:"lag"`
	Takes   time.Duration `json:"takes"`
	// Clients have accounts, Credits is the size of the pool, Issued what was granted.
	Clients int `json:"clients"`
	Credits int `json:"credits"`
	Issued  int `json:"issued"`
	// Weight is that of the interactive class where a share.Controller finds it, 0 to 1.
	Weight float64 `json:"weight,omitempty"`
	// Class counts the requests that a proxy admitted by class, where it learns classes.
	Class map[string]uint64 `json:"class,omitempty"`
	// Law is what requests waited for workers, of an Async service or at a proxy's slots.
	Law *Law `json:"law,omitempty"`
}

const lookPrefix = "look "

// look prints a Look at the end of each bin, and a last one when ctx ends.
func (o *order) look(ctx context.Context, p *plan, x *process) error {
	begin, err := o.awaitBegin(ctx)
	if err != nil {
		return err
	}
	if err := x.slowAt(p, o, begin); err != nil {
		return err
	}
	see := func(at time.Duration) Look {
		l := Look{Service: o.Service, Replica: o.Replica, At: at, Used: machine.Own(), Busy: time.Duration(x.busy.Load())}
		// In this order: what ends between two of them has begun when that is counted.
		l.Wasted, l.Finished, l.Begun = int(x.wasted.Load()), int(x.finished.Load()), int(x.begun.Load())
		if x.crew != nil {
			if o.Exits == nil { // else the proxy in front says it
				l.Law = x.crew.look()
			}
			if x.crew.steer != nil {
				l.Weight = x.crew.steer.weight()
			}
		}
		switch {
		case x.gate != nil:
			l.gate(x.gate.Stats())
		case x.semaphore != nil:
			l.Shed = map[string]uint64{}
			for r := range x.semaphore.refused {
				if n := x.semaphore.refused[r].Load(); n > 0 {
					l.Shed[work.Reason(r).String()] = uint64(n)
				}
			}
			l.Limit, l.Running = cap(x.semaphore.running), len(x.semaphore.running)
			l.Waiting = len(x.semaphore.waiting) - l.Running
		}
		if at >= p.Length {
			l.Heap, l.Stacks = o.rest()
		}
		return l
	}
	return everyBin(ctx, begin, see)
}

// gate fills in what a gate says of itself.
func (l *Look) gate(s live.Stats) {
	l.Limit, l.Running, l.Waiting, l.Delay, l.Takes, l.Lag = s.Limit, s.Running, s.Waiting, s.Delay, s.Service, s.Lag
	l.Clients, l.Credits, l.Issued = s.Clients, s.Credits, s.Issued
	l.Shed = map[string]uint64{}
	for r, n := range s.Shed {
		if n > 0 {
			l.Shed[work.Reason(r).String()] = n
		}
	}
}

// awaitBegin waits until the run has a beginning.
func (o *order) awaitBegin(ctx context.Context) (begin time.Time, err error) {
	err = await(ctx, o.Dir, beginFile, &begin)
	return begin, err
}

// everyBin prints what see returns at the end of each bin and when ctx ends.
func everyBin(ctx context.Context, begin time.Time, see func(at time.Duration) Look) error {
	print := func(at time.Duration) error {
		text, err := json.Marshal(see(at))
		if err != nil {
			return err
		}
		_, err = fmt.Println(lookPrefix + string(text))
		return err
	}
	for at := max(time.Since(begin)/bin, 0)*bin + bin; ; at += bin {
		select {
		case <-time.After(time.Until(begin.Add(at))):
		case <-ctx.Done():
			return print(time.Since(begin))
		}
		if err := print(at); err != nil {
			return err
		}
	}
}

// readLooks finds the looks in all that a child wrote.
func readLooks(output string) (all []Look) {
	for line := range strings.Lines(output) {
		text, ok := strings.CutPrefix(line, lookPrefix)
		var l Look
		if ok && json.Unmarshal([]byte(text), &l) == nil { // the last line of a killed one may be cut
			all = append(all, l)
		}
	}
	return all
}
