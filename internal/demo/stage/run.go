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
	Load    *Load    `json:"load,omitempty"`
}

// Line is one line that a child writes; one field is set.
type Line struct {
	// Service is what a service counted so far, five times a second.
	Service *Report `json:"service,omitempty"`
	// Weighing is what a server of a shop with shares decided, once a period.
	Weighing *Weighing `json:"weighing,omitempty"`
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
		return fmt.Errorf("demo: the part %q: %w; expected JSON with a service, a shop or a load", arg, err)
	}
	proc.ExitWithParent()
	w := &writer{out: out}
	switch {
	case p.Service != nil && p.Shop == nil && p.Load == nil:
		return p.Service.run(ctx, w)
	case p.Shop != nil && p.Service == nil && p.Load == nil:
		return p.Shop.run(ctx, w)
	case p.Load != nil && p.Service == nil && p.Shop == nil:
		return p.Load.run(ctx, w)
	}
	return errors.New("demo: the part names several of a service, a shop and a load, or none; expected one")
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
