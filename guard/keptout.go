package guard

import (
	"context"
	"fmt"
	"log/slog"
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
	kind   uint64
	until  time.Time
	told   KeptOut
	leased time.Time // until when the server keeps it out by itself
}

// keepOut enters what a decision advises, and forgets what does not stand any more. The lock is held.
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
		g.keeps = slices.DeleteFunc(g.keeps, func(old keeping) bool {
			if old.kind == k.kind {
				k.leased = old.leased
			}
			return old.kind == k.kind
		})
		g.keeps = append(g.keeps[max(0, len(g.keeps)-mostKeptOut+1):], k)
	}
	g.keeps = slices.DeleteFunc(g.keeps, func(k keeping) bool { return !k.until.After(now) || g.mode != culprit.Enforce })
}

// keptOut returns what stands at an instant: nothing once the guard is disarmed, and no kind for longer than was advised, also while nothing can be
// seen. The lock is held.
func (g *Guard) keptOut(mode culprit.Mode, now time.Time) (all []KeptOut) {
	for _, k := range g.keeps {
		if mode == culprit.Enforce && k.until.After(now) {
			k.told.For = k.until.Sub(now).Seconds()
			all = append(all, k.told)
		}
	}
	return all
}

// lease is for how long a server is asked to keep a kind out by itself. It is asked anew after half of
// that, so that a guard that ended, or only monitors now, keeps nothing out for longer.
const lease = 2 * time.Second

// keepOutThere has the server itself keep out what is kept out, if it can. A server that fails at that
// is asked again as if it had not.
func (g *Guard) keepOutThere(ctx context.Context, source Source) {
	server, ok := source.(keeper)
	if !ok {
		return
	}
	now := time.Now()
	for _, kind := range g.unleased(now) {
		if err := server.KeepOut(ctx, kind, lease); err != nil {
			g.log.Error("the server does not keep a kind out", slog.String("fingerprint", fmt.Sprintf("%016x", kind)), slog.Any("error", err))
		}
		g.leased(kind, now.Add(lease))
	}
}

// unleased returns the kinds that the server is to be asked to keep out, now or anew.
func (g *Guard) unleased(now time.Time) (kinds []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.keeps {
		if k.leased.Sub(now) < lease/2 && k.until.After(now) {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// leased notes that the server keeps a kind out until an instant.
func (g *Guard) leased(kind uint64, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.keeps {
		if g.keeps[i].kind == kind {
			g.keeps[i].leased = until
		}
	}
}
