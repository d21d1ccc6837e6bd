package postgres

import (
	"time"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
)

// snapshots enters who keeps old versions of rows for longer than an objective, and returns
// who keeps most that nobody else does; nil if nobody does. Statements such as begin and end
// all the time have snapshots too, which are not worth an entry, and those of vacuums keep
// nothing.
func (b *builder) snapshots(in *input, entries map[int64]*track.Entry) (most *track.Entry) {
	var made []uint64
	var held []*activityRow
	for i := range in.rows {
		r := &in.rows[i]
		e := entries[r.pid]
		if r.backend != "client backend" || e == nil || r.horizon <= 0 || b.alike(r, e) || b.known[r.pid].parsed.Class == statement.Vacuum {
			continue
		}
		made, held = append(made, uint64(r.horizon)), append(held, r)
	}
	alone := track.Margins(made)
	largest := uint64(0)
	for i, r := range held {
		e, since := entries[r.pid], in.instant(r.transaction)
		if in.at.Sub(since) <= b.objective || alone[i] == 0 {
			continue
		}
		b.tracker.Holds(e, versions, since, alone[i], false)
		if alone[i] > largest {
			largest, most = alone[i], e
		}
	}
	return most
}

// harmless returns for how long a snapshot is taken to make no statement dear. Once one is older, what was seen before it is
// normal, and what is seen since is not. That is after several objectives, in which statements that are in time begin and end, but
// for what their cost cannot be told in, and no longer than is known to do harm (the requests of pg-snapshot were late 0.2 s after it was taken).
func harmless(objective time.Duration) time.Duration {
	const objectives, least, most = 4, 250 * time.Millisecond, time.Second
	return min(max(objectives*objective, least), most)
}

// dear is what short statements lose to the holder of old versions: a share of their work, and of
// their wait for processors.
type dear struct{ work, wait float64 }

// dear returns the share of the work of short statements that is beyond what is normal
// while nobody keeps old versions for long, and that of their wait for processors that would end
// with it; zeros if nobody does now.
func (b *builder) dear(in *input, entries map[int64]*track.Entry, holder *track.Entry, completed uint64) (d dear) {
	work, running, held := b.use.short.CPU, 0, time.Duration(0)
	for _, u := range b.use.long {
		if u.entry != holder && b.alike(u.row, u.entry) {
			work += u.CPU
		}
	}
	for i := range in.rows {
		r := &in.rows[i]
		e := entries[r.pid]
		switch {
		case e == nil:
		case e == holder:
			held = in.at.Sub(in.instant(r.transaction))
		case r.waitType == "" && b.alike(r, e):
			running++
		}
	}
	if b.before > 0 && b.ended.Known() { // else it is not known since when this was done, or for how many
		if held < harmless(b.objective) {
			held = 0
		}
		b.cost.Add(in.at.Sub(b.before), work, running, completed, held)
	}
	if holder == nil {
		return d
	}
	d.work, _ = b.cost.Beyond(track.Unbounded)
	d.wait = max(d.work, track.Due(b.meter.Load(in.at.Sub(b.before), time.Duration(d.work*float64(work)))))
	return d
}
