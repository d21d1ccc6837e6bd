package mariadb

import (
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
)

// used is what one thread used for a task since the look before.
type used struct {
	row   *sessionRow
	entry *track.Entry
	procfs.Usage
	state procfs.State
}

// consume enters what threads used, if they run on this machine, and what no view shows: who
// waits for storage, who sleeps inside of the server, and what statements lose to the holder of
// old versions of rows.
func (b *builder) consume(v *view, done uint64) {
	holder, held, kept := b.keeps(v)
	if v.usage == nil {
		return
	}
	b.used = b.used[:0]
	var cpu, delay, lacked time.Duration // of all; of statements that begin and end all the time
	running, slept, storing := 0, 0, false
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
		u := used{r, e, b.meter.Since(r.thread, now), procfs.Unknown}
		cpu, delay = cpu+u.CPU, delay+u.Delay
		if b.runs(v, r) {
			u.state = v.state(r.thread)
			storing = storing || u.state == procfs.Storing
			if u.state != procfs.Storing && e != holder && b.alike(v, e, r) {
				running++
				lacked += u.Delay
				if u.state == procfs.Sleeping && !talks(r.state) {
					slept++
				}
			}
		}
		b.used = append(b.used, u)
	}
	part := b.meter.Part(cpu)
	all, own := b.meter.Load(v.at.Sub(b.before), cpu)
	b.tracker.Taken(all - own)
	b.starved = time.Duration(float64(delay)*part) > cpu
	m := machine{storing: storing, lacks: part * float64(delay) / max(float64(cpu+delay), 1), holder: holder}
	m.dear, m.sleeps = b.dear(v, held, kept, running, slept, done, time.Duration(float64(lacked)*part))
	for i := range b.used {
		u := &b.used[i]
		b.unseen(v, u, &m)
		if u.entry.Fresh {
			continue
		}
		b.tracker.Consumes(u.entry, processor, uint64(u.CPU), time.Duration(float64(u.Delay)*part))
		b.tracker.Starves(u.entry, time.Duration(float64(u.Delay)*(1-part)))
		if u.IO {
			b.tracker.Consumes(u.entry, storage, u.Read+u.Written, 0)
		}
	}
}

// machine is what threads have in common at a look.
type machine struct {
	storing bool    // a thread waits for storage
	lacks   float64 // share of their running time for which threads lack a processor
	holder  *track.Entry
	dear    float64 // share of the time of statements that is lost to the holder of old versions
	sleeps  float64 // the same of the time for which they sleep
}

// unseen enters what a running statement loses time to that no view shows. A thread that
// sleeps waits for a latch, which another thread has that does not: what that one waits for
// both lose their time to, be it storage, the versions that it passes through, or a processor.
// What a statement used that was not there at the look before is not known: it is taken to use
// a processor as long as it runs and does not lack one.
func (b *builder) unseen(v *view, u *used, m *machine) {
	e := u.entry
	t, _ := b.tracker.At(e)
	since := min(v.at.Sub(t.Started), v.at.Sub(b.before))
	dear, sleeps := 0.0, 0.0
	if m.holder != nil && e != m.holder && b.alike(v, e, u.row) {
		dear, sleeps = m.dear, m.sleeps
	}
	switch u.state {
	case procfs.Storing:
		b.tracker.Samples(e, storage)
	case procfs.Sleeping:
		switch {
		case talks(u.row.state):
		case m.storing:
			b.tracker.Samples(e, storage)
		case dear > 0, sleeps > 0.5:
			b.tracker.Samples(e, versions)
		case m.lacks > 0.5:
			b.tracker.Samples(e, processor)
		default:
			b.tracker.Samples(e, internals)
		}
	case procfs.Running:
		if dear > 0 {
			b.tracker.Consumes(e, versions, 0, time.Duration(dear*float64(since)))
		}
		if e.Fresh {
			b.tracker.Consumes(e, processor, uint64((1-m.lacks)*float64(since)), time.Duration(m.lacks*(1-dear)*float64(since)))
		}
	}
}

// talks reports whether a session in some state waits for its client, or because its statement
// asked it to.
func talks(state string) bool {
	return state == "" || state == "User sleep" || strings.Contains(state, "net") || strings.Contains(state, "client")
}

// runs reports whether a session waits for nothing that a view shows.
func (b *builder) runs(v *view, r *sessionRow) bool {
	t := v.trx[r.id]
	return !waitsForLock(r.state) && (t == nil || !t.waiting)
}

// alike reports whether a session runs a statement such as begin and end all the time.
func (b *builder) alike(v *view, e *track.Entry, r *sessionRow) bool {
	return e.Fresh || b.kinds.usual(b.known[r.id].parsed.Fingerprint, v.at)
}
