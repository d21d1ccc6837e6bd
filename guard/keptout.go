package guard

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// KeptOut is a kind of task of which no other should begin for now: one was cancelled, or cannot
// be. A guard cannot keep it out; a proxy in front of the server can, if it is told of the guard
// (proxy.Culprit.Guard).
type KeptOut struct {
	Fingerprint string `json:"fingerprint"`
	// Route is the kind as a proxy names it, "GET /path"; empty where the server is not one of HTTP.
	Route string `json:"route,omitempty"`
	// Resource is what tasks of the kind kept from others.
	Resource string `json:"resource"`
	// For is how long it stands from now on, in seconds.
	For float64 `json:"for_seconds"`
}

// mostKeptOut bounds the kinds that are kept out; of more, the oldest go.
const mostKeptOut = 64

// keeping is a kind that is kept out.
type keeping struct {
	kind  uint64
	until time.Time
	told  KeptOut
}

// keepOut enters what a decision advises, and what of that still stands. The lock is held.
func (g *Guard) keepOut(l *track.Look, d *culprit.Decision, now time.Time) {
	if limit := d.Action.Limit; limit.Kind != 0 && !d.Action.Would && g.mode == culprit.Enforce {
		k := keeping{kind: limit.Kind, until: now.Add(limit.For), told: KeptOut{Fingerprint: fmt.Sprintf("%016x", limit.Kind)}}
		for i := range l.Sample.Tasks {
			if l.Sample.Tasks[i].Kind == limit.Kind {
				k.told.Route = l.Sessions[i].Route
				break
			}
		}
		for _, c := range d.Candidates {
			if c.Kind == limit.Kind {
				k.told.Resource = l.Sample.Resources[c.Resource].Name
				break
			}
		}
		g.keeps = slices.DeleteFunc(g.keeps, func(old keeping) bool { return old.kind == k.kind })
		g.keeps = append(g.keeps[max(0, len(g.keeps)-mostKeptOut+1):], k)
	}
	g.keeps = slices.DeleteFunc(g.keeps, func(k keeping) bool { return !k.until.After(now) || g.mode != culprit.Enforce })
	g.status.KeptOut = nil
	for _, k := range g.keeps {
		k.told.For = k.until.Sub(now).Seconds()
		g.status.KeptOut = append(g.status.KeptOut, k.told)
	}
}
