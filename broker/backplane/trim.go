package backplane

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// trimEvery is how often the log is cut to what is needed.
	trimEvery = 5 * time.Second
	// deadAfter is how long a node may say nothing until the log is not kept for it.
	deadAfter = 60 * time.Second
	// expiredFor is how long a session must have been expired, by this node's clock,
	// before it is forgotten: clocks differ.
	expiredFor = time.Minute
)

// trim tells the other nodes how far this one is, forgets sessions that are expired, and
// cuts the log to the messages that a session or a shared subscription still needs. Every node does; it is safe to do twice. It cuts to
// what was not needed the last time, since the copy of the log that a consumer reads may not have had the newest messages then.
func (p *Plane) trim() {
	unneeded := uint64(0)
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(trimEvery):
		}
		ctx, cancel := context.WithTimeout(p.ctx, trimEvery)
		if p.tell(ctx) == nil {
			if unneeded > 0 {
				_ = p.stream.Purge(ctx, jetstream.WithPurgeSequence(unneeded+1)) // all before it; the next time, if not now
			}
			unneeded, _ = p.undrawn(ctx, p.needed(ctx, time.Now()))
		}
		cancel()
	}
}

// tell tells the other nodes how far this one is.
func (p *Plane) tell(ctx context.Context) error {
	_, err := p.nodes.Put(ctx, token(p.cfg.Node), []byte(strconv.FormatUint(p.Position(), 10)))
	return err
}

// knowsAll reports whether this node has heard of every session that is stored.
func (p *Plane) knowsAll(ctx context.Context) bool {
	s, err := p.kv.Status(ctx)
	if err != nil {
		return false
	}
	of, ok := s.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return false
	}
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	return p.sessions.revision >= of.StreamInfo().State.LastSeq
}

// needed returns the position up to which nobody needs the log any more, 0 if that is
// not known.
func (p *Plane) needed(ctx context.Context, now time.Time) uint64 {
	floor := uint64(math.MaxUint64)
	seen := map[string]time.Time{} // when nodes were heard last
	keys, err := p.nodes.Keys(ctx)
	if err != nil {
		return 0
	}
	for _, key := range keys {
		e, err := p.nodes.Get(ctx, key)
		if err != nil {
			return 0
		}
		seen[key] = e.Created()
		if now.Sub(e.Created()) > deadAfter {
			continue
		}
		at, err := strconv.ParseUint(string(e.Value()), 10, 64)
		if err != nil {
			return 0
		}
		floor = min(floor, at)
	}
	// A session that was stored before the nodes told how far they are is among those
	// that this node knows of.
	if !p.knowsAll(ctx) {
		return 0
	}
	expired := map[string]uint64{}
	p.sessions.mu.Lock()
	here := map[string]bool{}
	for client := range p.sessions.subs {
		here[keyOf(client)] = true
	}
	for key, s := range p.sessions.all {
		if until := p.expires(s, seen, here[key]); !until.IsZero() && now.Sub(until) > max(expiredFor, deadAfter) {
			expired[key] = s.Revision
			continue
		}
		floor = min(floor, s.Floor)
	}
	p.sessions.mu.Unlock()
	for key, revision := range expired {
		_ = p.kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(goneFor)) // the next time, if not now; not if the client came back
	}
	if floor == math.MaxUint64 {
		return 0
	}
	return floor
}

// expires returns when a session expires, zero while its client is connected: to a node that
// is up, or to this one since it started. seen is when nodes were heard last.
func (p *Plane) expires(s known, seen map[string]time.Time, here bool) time.Time {
	heard := seen[token(s.Node)]
	switch {
	case !s.Until.IsZero():
		return s.Until
	case here:
		return time.Time{}
	case s.Node == p.cfg.Node && s.stored.Before(p.started): // it died with the process before
		return p.started.Add(s.Expiry)
	case heard.IsZero():
		return s.stored.Add(s.Expiry)
	case time.Since(heard) < deadAfter:
		return time.Time{}
	}
	return heard.Add(s.Expiry)
}
