package backplane

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// trimEvery is how often the log is cut to what is needed.
	trimEvery = 5 * time.Second
	// emptyRounds is how many times in a row that is put off while the log is empty: sessions expire, and shared subscriptions end,
	// half a minute later then.
	emptyRounds = 6
	// deadAfter is how long a node may say nothing until the log is not kept for it.
	deadAfter = 60 * time.Second
	// expiredFor is how long a session must have been expired, by this node's clock,
	// before it is forgotten: clocks differ.
	expiredFor = time.Minute
	// knowTime is how long it is waited until this node has heard of what is stored.
	knowTime = time.Second
)

// trim tells the other nodes how far this one is, forgets sessions that are expired, and
// cuts the log to the messages that a session or a shared subscription still needs. Every node does; it is safe to do twice. It cuts to
// what was not needed the last time, since the copy of the log that a consumer reads may not have had the newest messages then.
//
// That takes requests of JetStream which all nodes work on. So nodes that were started together do it at
// different times, and seldom while the log is empty.
func (p *Plane) trim() {
	var r trimming
	for wait := time.Duration(rand.Int64N(int64(p.trimEvery))); ; wait = p.trimEvery {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(wait):
			p.trimOnce(&r)
		}
	}
}

// trimming is what one round of trim leaves to the next.
type trimming struct {
	unneeded, cut uint64 // up to where the log is needed no more, and was cut
	empty         int    // rounds in a row with an empty log
}

func (p *Plane) trimOnce(r *trimming) {
	ctx, cancel := context.WithTimeout(p.ctx, trimEvery)
	defer cancel()
	revision, err := p.tell(ctx)
	if err != nil {
		return
	}
	if info, err := p.stream.Info(ctx); err == nil && info.State.Msgs == 0 && r.empty < emptyRounds {
		r.empty++
		return
	}
	r.empty = 0
	if r.unneeded > r.cut && p.stream.Purge(ctx, jetstream.WithPurgeSequence(r.unneeded+1)) == nil { // all before it; the next time, if not now
		r.cut = r.unneeded
	}
	floor, groups := p.needed(ctx, revision, time.Now())
	r.unneeded, _ = p.undrawn(ctx, floor, groups)
}

// knowsAll reports whether this node has heard, or soon hears, of every session that is stored by now. Where clients are busy there is always
// one that it has yet to hear of.
func (p *Plane) knowsAll(ctx context.Context) bool {
	s, err := p.kv.Status(ctx)
	if err != nil {
		return false
	}
	of, ok := s.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return false
	}
	for end := time.Now().Add(knowTime); ; p.sleep(time.Millisecond) {
		p.sessions.mu.Lock()
		known := p.sessions.revision
		p.sessions.mu.Unlock()
		if known >= of.StreamInfo().State.LastSeq {
			return true
		}
		if ctx.Err() != nil || p.ctx.Err() != nil || time.Now().After(end) {
			return false
		}
	}
}

// needed returns the position up to which nobody needs the log any more, but for shared subscriptions, and which of these have members,
// by what nodes had told up to a revision at least. It is 0 if that is not known.
func (p *Plane) needed(ctx context.Context, revision uint64, now time.Time) (floor uint64, groups map[string]bool) {
	nodes := p.toldBy(ctx, revision)
	if nodes == nil {
		return 0, nil
	}
	floor, groups = math.MaxUint64, map[string]bool{}
	seen := map[string]time.Time{} // when nodes were heard last
	for key, n := range nodes {
		if seen[key] = n.at; now.Sub(n.at) > deadAfter {
			continue
		}
		if !n.readable {
			return 0, nil
		}
		floor = min(floor, n.position)
		for _, name := range n.groups {
			groups[name] = true
		}
	}
	// A session that was stored before the nodes told how far they are is among those
	// that this node knows of.
	if !p.knowsAll(ctx) {
		return 0, nil
	}
	expired := map[string]uint64{}
	p.sessions.mu.Lock()
	here := map[string]bool{}
	for client := range p.sessions.subs {
		here[keyOf(client)] = true
	}
	adrift := map[string]time.Time{}
	for key, s := range p.sessions.all {
		if p.adrift(s, here[key]) {
			since, known := p.sessions.adrift[key]
			if !known {
				since = now
			}
			adrift[key], s.Until = since, since.Add(s.Expiry)
		}
		if until := p.expires(s, seen, here[key]); !until.IsZero() && now.Sub(until) > max(expiredFor, deadAfter) {
			expired[key] = s.Revision
			continue
		}
		floor = min(floor, s.Floor)
		for _, name := range s.Groups {
			groups[name] = true
		}
	}
	p.sessions.adrift = adrift
	p.sessions.mu.Unlock()
	// This node has told just now. Where it counts as silent all the same, so do others that are up: the bucket was made anew, and nothing of it is
	// heard, or clocks differ by much, and sessions only seem to have expired.
	if floor == math.MaxUint64 || now.Sub(seen[token(p.cfg.Node)]) > deadAfter {
		return 0, nil
	}
	for key, revision := range expired {
		_ = p.kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(goneFor)) // the next time, if not now; not if the client came back
	}
	return floor, groups
}

// adrift reports whether a session's client has left this process, and that could not be stored: as it is stored, it is connected here.
func (p *Plane) adrift(s known, here bool) bool {
	return s.Until.IsZero() && !here && s.Node == p.cfg.Node && !s.stored.Before(p.started)
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
