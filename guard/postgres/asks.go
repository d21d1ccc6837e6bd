package postgres

import (
	"math"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/mono"
)

// ask is a request that its session has not read: the session is idle to the server, and waits
// for a processor.
type ask struct {
	since  mono.Time // when it was seen first
	number int64
	look   uint64
}

// unreadRequest is the Session of the keys of such requests.
const unreadRequest = -1

// ask enters the requests that idle sessions have not read. They hold nothing, and there is nothing to
// cancel.
func (b *builder) ask(in *input) {
	for i := range in.rows {
		r := &in.rows[i]
		if r.state != "idle" || r.port == 0 || !slices.Contains(in.unread, r.port) || in.instant(r.changed) >= in.unreadAt {
			continue // it has read, and answered, since
		}
		a, ok := b.asks[r.pid]
		if !ok || a.look != b.look-1 || in.instant(r.changed) >= a.since {
			a.since, a.number = in.unreadAt, a.number+1
		}
		a.look = b.look
		b.asks[r.pid] = a
		e := b.tracker.Task(track.Key{Process: r.pid, Session: unreadRequest, Work: a.number}, a.since)
		_, s := b.tracker.At(e)
		*s = track.Session{Process: r.pid, User: r.user, Application: r.application, Database: r.database, Client: r.client, State: "idle, its client's request is not read"}
		b.tracker.Waits(e, processor, a.since)
	}
	for pid := range b.asks {
		if _, there := b.known[pid]; !there {
			delete(b.asks, pid)
		}
	}
}

// delayed reports whether sessions lacked a processor for as long as they had one, at the look before.
// Their requests are worth looking for then.
func (u *use) delayed() bool { return u.short.Delay > u.short.CPU }

// late estimates how many statements took longer than the objective for a lack of processors. Most
// of that comes before they begin as the server tells it, when their sessions are to wake up. Waits for a
// processor are taken to be exponential, as they are in a queue.
func (b *builder) late(completed uint64) (timed, late uint64) {
	if !b.use.known || completed == 0 || b.use.short.Delay <= 0 {
		return 0, 0
	}
	mean := b.use.part * float64(b.use.short.Delay) / float64(completed)
	if late = uint64(float64(completed) * math.Exp(-float64(b.objective)/mean)); late == 0 {
		return 0, 0
	}
	return completed, late
}

// endedLate reports whether a statement ended late since the look before that began since then: no look saw it. Of a session the last
// statement alone is known. One that ended while the look before was taken is in both looks, and counts once.
func (b *builder) endedLate(in *input, r *activityRow) bool {
	if b.before == 0 || r.backend != "client backend" || !strings.HasPrefix(r.state, "idle") || r.changed.Before(in.since) || r.statement.Before(in.since) || r.changed.Sub(in.clock.Now(r.statement)) <= b.objective {
		return false
	}
	k := b.known[r.pid]
	again := k.late.Equal(r.changed)
	k.late = r.changed
	b.known[r.pid] = k
	return !again
}
