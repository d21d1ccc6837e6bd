package live

import (
	"context"
	"fmt"
)

// Mode says how far a gate's decisions go.
type Mode uint8

const (
	// Enforce refuses and delays requests.
	Enforce Mode = iota
	// Monitor lets every request run at once and counts what Enforce would have
	// done.
	Monitor
	// Off lets every request run at once and measures nothing.
	Off
)

// Bypassed reports whether requests pass the gate unseen: its mode is Off, and it is not closed. An edge may then
// serve a request that says nothing about itself without a ticket, in a context of Passing.
func (g *Gate) Bypassed() bool { return Mode(g.mode.Load()) == Off && !g.shut.Load() }

// Passing returns a context for such a request: calls made with it know that they are not at the edge of the
// system, as Serving reports, and no more.
func Passing(ctx context.Context) context.Context { return passing{ctx} }

type passing struct{ context.Context }

func (p passing) Value(key any) any {
	if key == (ServingKey{}) {
		return p
	}
	return p.Context.Value(key)
}

var modeNames = [...]string{Enforce: "enforce", Monitor: "monitor", Off: "off"}

// String returns the name that ParseMode takes.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// ParseMode returns the mode called s.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if s == name {
			return Mode(m), nil
		}
	}
	return Enforce, fmt.Errorf("mode is %q, expected off, monitor or enforce", s)
}
