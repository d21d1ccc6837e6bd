package postgres

import (
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
)

// use is what processes used since the look before, if they run on this machine.
type use struct {
	known bool
	// long is what tasks used that were there at the look before, with their helpers.
	long []used
	// short is what the sessions used whose statements last for less than a look. What each
	// of them used says little of the statement that it runs at the look, but all of them
	// together say what such statements use.
	short procfs.Usage
	// sessions is how many they are, kinds are the statements that they run at the look.
	sessions int
	kinds    map[uint64]bool
	// processes is how many work for a task that has helpers: it lacks a processor for as
	// long as one of them does in the mean.
	processes map[*track.Entry]int
	// part is how much of the time for which a process waited for a processor the server's
	// own processes used: the rest it lost to strangers.
	part float64
	// starved tells that nobody waits for storage, and that the processes lacked a processor
	// for longer than they had one.
	starved bool
}

// used is what one process used for a task.
type used struct {
	row   *activityRow
	entry *track.Entry
	procfs.Usage
}

// logged bounds, in bytes, what short transactions are taken to add to the log, each: a
// changed row takes one to a few hundred. What a commit writes beyond that is the log of
// others, which it must write before its own.
const logged = 1024

// measure reads what processes used. What helpers use counts for whom they help.
func (b *builder) measure(in *input, entries map[int64]*track.Entry, leaders map[int64]int64) {
	b.use = use{known: in.usage != nil, long: b.use.long[:0], kinds: map[uint64]bool{}, processes: map[*track.Entry]int{}}
	if in.usage == nil {
		return
	}
	var cpu, delay time.Duration
	storing := false
	for i := range in.rows {
		r := &in.rows[i]
		storing = storing || r.waitType == "IO"
		e := entries[r.pid]
		helps, helper := leaders[r.pid]
		if helper {
			e = entries[helps]
		}
		idle := strings.HasPrefix(r.state, "idle")
		if e == nil && (helper || !idle) {
			continue
		}
		now, ok := in.usage(r.pid)
		if !ok {
			continue
		}
		u := b.meter.Since(r.pid, now)
		cpu, delay = cpu+u.CPU, delay+u.Delay
		b.unmade(r.pid, &u, in.at.Sub(b.before))
		switch {
		case helper, e != nil && !e.Fresh && !idle:
			b.use.long = append(b.use.long, used{r, e, u})
			b.use.processes[e]++
		case r.backend == "client backend":
			b.use.addShort(u)
			if e != nil && !idle {
				b.use.kinds[b.known[r.pid].parsed.Fingerprint] = true
			}
		}
	}
	b.use.part = b.meter.Part(cpu)
	all, own := b.meter.Load(in.at.Sub(b.before), cpu)
	b.tracker.Taken(all - own)
	b.use.starved = !storing && time.Duration(float64(delay)*b.use.part) > cpu
}

// unmade takes from what a process wrote the segment of the log that it made: whoever comes first
// makes it, for all. What else it wrote meanwhile is taken to be what it wrote before.
func (b *builder) unmade(pid int64, u *procfs.Usage, dt time.Duration) {
	k := b.known[pid]
	if k.segment {
		u.Written = min(u.Written, uint64(k.writes*dt.Seconds()))
		return
	}
	if dt > 0 {
		k.writes = float64(u.Written) / dt.Seconds()
		b.known[pid] = k
	}
}

func (u *use) addShort(one procfs.Usage) {
	u.short.CPU += one.CPU
	u.short.Delay += one.Delay
	u.short.Read += one.Read
	u.short.Written += one.Written
	u.sessions++
}

// alike reports whether a session runs a statement such as begin and end all the time.
func (b *builder) alike(r *activityRow, e *track.Entry) bool {
	return r.backend == "client backend" && r.state == "active" && (e.Fresh || b.use.kinds[b.known[r.pid].parsed.Fingerprint])
}

// consume enters what was measured, and what statements lose to the holder of old
// versions of rows: what they cost beyond normal, and what they wait longer for processors
// because of it.
func (b *builder) consume(in *input, entries map[int64]*track.Entry, holder *track.Entry, completed uint64) {
	if !b.use.known {
		return
	}
	lost := b.dear(in, entries, holder, completed)
	for _, u := range b.use.long {
		delay := float64(u.Delay) * b.use.part / float64(b.use.processes[u.entry])
		if lost.work > 0 && u.entry != holder && b.alike(u.row, u.entry) {
			if u.row.waitType == "" {
				b.tracker.Consumes(u.entry, versions, 0, time.Duration(lost.work*float64(u.CPU)+lost.wait*delay))
			}
			delay *= 1 - lost.wait
		}
		b.tracker.Consumes(u.entry, processor, uint64(u.CPU), time.Duration(delay))
		b.tracker.Starves(u.entry, time.Duration(float64(u.Delay)*(1-b.use.part)/float64(b.use.processes[u.entry])))
		if u.IO {
			b.tracker.Consumes(u.entry, wal, u.Written, 0)
			b.tracker.Consumes(u.entry, storage, u.Read+u.Written, 0)
			b.tracker.Consumes(u.entry, buffers, u.Read, 0)
		}
	}
	b.use.short.Written = min(b.use.short.Written, completed*logged)
	b.divide(in, entries, lost)
}

// divide gives the statements that began since the look before an equal rate of what all
// such used. Those that are not seen waiting for anything else lost to the processor the
// share of their time for which such statements were ready and had none; lost is what of it
// all is lost to old versions.
func (b *builder) divide(in *input, entries map[int64]*track.Entry, lost dear) {
	span := in.at.Sub(b.before)
	all := &b.use.short
	if b.use.sessions == 0 || span <= 0 {
		return
	}
	n := 0
	fresh := func(do func(r *activityRow, e *track.Entry)) {
		for i := range in.rows {
			if r := &in.rows[i]; r.state == "active" && r.backend == "client backend" {
				if e := entries[r.pid]; e != nil && e.Fresh {
					do(r, e)
				}
			}
		}
	}
	fresh(func(*activityRow, *track.Entry) { n++ })
	delayed := float64(all.Delay) * b.use.part / max(float64(all.CPU+all.Delay), 1)
	fresh(func(r *activityRow, e *track.Entry) {
		t, _ := b.tracker.At(e)
		age := min(in.at.Sub(t.Started), span)
		share := func(whole float64) uint64 { return uint64(whole * float64(age) / float64(span) / float64(n)) }
		var delay time.Duration
		if r.waitType == "" {
			delay = time.Duration(delayed * (1 - lost.wait) * float64(age))
			b.tracker.Consumes(e, versions, 0, time.Duration((lost.work*(1-delayed)+lost.wait*delayed)*float64(age)))
		}
		b.tracker.Consumes(e, processor, share(float64(all.CPU)), delay)
		b.tracker.Consumes(e, wal, share(float64(all.Written)), 0)
		b.tracker.Consumes(e, storage, share(float64(all.Read+all.Written)), 0)
		b.tracker.Consumes(e, buffers, share(float64(all.Read)), 0)
	})
}
