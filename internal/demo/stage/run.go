package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

// Part is what one child process plays; exactly one field is set.
type Part struct {
	Service *Service `json:"service,omitempty"`
	Shop    *Shop    `json:"shop,omitempty"`
	Locked  *Locked  `json:"locked,omitempty"`
	Broker  *Broker  `json:"broker,omitempty"`
	Load    *Load    `json:"load,omitempty"`
}

// Line is one line that a child writes; one field is set.
type Line struct {
	// Service is what a service counted so far, five times a second.
	Service *Report `json:"service,omitempty"`
	// Weighing is what a server of a shop with shares decided, once a period.
	Weighing *Weighing `json:"weighing,omitempty"`
	// Named is whom the gate of a store with a lock cancels, Asked what became of the
	// report that the load asked it for.
	Named *Named `json:"named,omitempty"`
	Asked *Asked `json:"asked,omitempty"`
	// Flooded is what the load has sent of a flood so far, four times a second.
	Flooded *Flooded `json:"flooded,omitempty"`
	// Try is one try of the search for the capacity, Capacity its result.
	Try      *Try      `json:"try,omitempty"`
	Capacity *Capacity `json:"capacity,omitempty"`
	// Progress is the load's course so far, four times a second, Outcome its
	// end.
	Progress *Progress `json:"progress,omitempty"`
	Outcome  *Outcome  `json:"outcome,omitempty"`
}

// Arg returns p as the argument that Run takes.
func (p Part) Arg() (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// Run plays the part that arg describes until it is over or ctx ends, writing
// lines to out. The process leaves when its parent does.
func Run(ctx context.Context, arg string, out io.Writer) error {
	var p Part
	decoder := json.NewDecoder(strings.NewReader(arg))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return fmt.Errorf("demo: the part %q: %w; expected JSON with a service, a shop, a store with a lock, a broker or a load", arg, err)
	}
	proc.ExitWithParent()
	w := &writer{out: out}
	var chosen []interface {
		run(ctx context.Context, out *writer) error
	}
	if p.Service != nil {
		chosen = append(chosen, p.Service)
	}
	if p.Shop != nil {
		chosen = append(chosen, p.Shop)
	}
	if p.Locked != nil {
		chosen = append(chosen, p.Locked)
	}
	if p.Broker != nil {
		chosen = append(chosen, p.Broker)
	}
	if p.Load != nil {
		chosen = append(chosen, p.Load)
	}
	if len(chosen) != 1 {
		return errors.New("demo: the part names several of a service, a shop, a store with a lock, a broker and a load, or none; expected one")
	}
	return chosen[0].run(ctx, w)
}

// writer writes whole lines.
type writer struct {
	mu  sync.Mutex
	out io.Writer
}

// line writes one Line. A reader that is gone is not an error: the process
// leaves by itself then.
func (w *writer) line(l Line) {
	text, err := json.Marshal(l)
	if err != nil {
		return // cannot happen: a Line holds finite numbers and strings
	}
	w.text(string(text))
}

func (w *writer) text(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(w.out, s+"\n")
}
