package mariadb

import (
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
)

// used is what one thread used for a task since the look before.
type used struct {
	row   *sessionRow
	entry *track.Entry
	procfs.Usage
}

// consume enters what threads used and who waits for storage, if they run on this machine,
// and what statements lose to the holder of old versions of rows: the time for which they run
// beyond normal, waiting neither for what a view shows nor for storage nor for a processor.
func (b *builder) consume(v *view, holder *track.Entry, done uint64) {
	if v.usage == nil {
		return
	}
	b.used = b.used[:0]
	var cpu, delay time.Duration
	running := 0
	for i := range v.sessions {
		r := &v.sessions[i]
		e := v.entries[r.id]
		if e == nil || r.idle() || r.thread == 0 {
			continue
		}
		now, ok := v.usage(r.thread)
		if !ok {
			continue
		}
		u := b.meter.Since(r.thread, now)
		cpu += u.CPU
		if !b.runs(v, r) {
			if !e.Fresh {
				b.used = append(b.used, used{r, e, u})
			}
			continue
		}
		if v.state(r.thread) == procfs.Storing {
			b.tracker.Samples(e, storage)
		} else if e != holder && b.alike(e, r) {
			running++
			delay += u.Delay
		}
		b.used = append(b.used, used{r, e, u})
	}
	part := b.meter.Part(cpu)
	dear := b.dear(v, holder, running, done, time.Duration(float64(delay)*part))
	for _, u := range b.used {
		if dear > 0 && u.entry != holder && b.alike(u.entry, u.row) && b.runs(v, u.row) {
			t, _ := b.tracker.At(u.entry)
			b.tracker.Consumes(u.entry, versions, 0, time.Duration(dear*float64(min(v.at.Sub(t.Started), v.at.Sub(b.before)))))
		}
		if u.entry.Fresh {
			continue
		}
		b.tracker.Consumes(u.entry, processor, uint64(u.CPU), time.Duration(float64(u.Delay)*part))
		if u.IO {
			b.tracker.Consumes(u.entry, storage, u.Read+u.Written, 0)
		}
	}
}

// runs reports whether a session waits for nothing that a view shows.
func (b *builder) runs(v *view, r *sessionRow) bool {
	t := v.trx[r.id]
	return !waitsForLock(r.state) && (t == nil || !t.waiting)
}

// alike reports whether a session runs a statement such as begin and end all the time.
func (b *builder) alike(e *track.Entry, r *sessionRow) bool {
	return e.Fresh || b.kinds[b.known[r.id].parsed.Fingerprint]
}
