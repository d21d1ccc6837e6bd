package culprit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/spillgate/spillgate/internal/mono"
)

// AppendState appends all that the engine remembers to dst. Another engine of the
// same configuration that has it restored decides like this one from then on.
func (e *Engine) AppendState(dst []byte) []byte {
	c := codec{buf: dst}
	e.visit(&c)
	return c.buf
}

// Restore replaces what the engine remembers with a state that AppendState made. The
// engine must not be used if it fails: the state is truncated, or not one.
func (e *Engine) Restore(state []byte) error {
	c := codec{buf: state, reading: true}
	first, version := c, uint64(0)
	if whole(&first, &version); !first.failed && 0 < version && version < 1000 && version != stateVersion {
		return fmt.Errorf("culprit: the state of an engine of version %d, expected %d: use the release that made it", version, stateVersion)
	}
	e.visit(&c)
	if c.failed || len(c.buf) > 0 {
		return errors.New("culprit: the state of an engine is damaged; expected what AppendState of the same version returned")
	}
	return nil
}

// stateVersion changes with what visit visits.
const stateVersion = 12

// visit hands every remembered field to c, to be written or read.
func (e *Engine) visit(c *codec) {
	version := uint64(stateVersion)
	if whole(c, &version); version != stateVersion {
		c.failed = true
		return
	}
	e.before.visit(c)
	e.recent.visit(c)
	e.normal.visit(c)
	e.endings.visit(c)
	e.departures.visit(c)
	whole(c, &e.suspect)
	whole(c, &e.calm)
	whole(c, &e.met)
	whole(c, &e.agreed.samples)
	whole(c, &e.agreed.against)
	whole(c, &e.agreed.span)
	whole(c, &e.agreed.task)
	whole(c, &e.agreed.kind)
	c.bool(&e.agreed.several)
	e.cancels.visit(c)
	whole(c, &e.out.State)
	c.failed = c.failed || e.suspect < 0 || e.calm < 0 || e.agreed.samples < 0 || e.agreed.span < 0 || e.out.State >= states
}

func (l *looked) visit(c *codec) {
	n, r := len(l.ids), l.resources
	if whole(c, &n); n < 0 || n > MaxTasks {
		c.failed = true
	}
	if whole(c, &r); r < 0 || r > MaxResources {
		c.failed = true
	}
	if c.failed = c.failed || c.reading && n*(r+1) > len(c.buf); c.failed { // each takes a byte at least
		return
	}
	at, known := l.at, l.any
	whole(c, &at)
	c.bool(&known)
	if c.reading {
		l.reset(at, n, r)
		l.any = known
	}
	for i := range n {
		id, kind, owner := l.ids[i], l.kinds[i], l.owners[i]
		whole(c, &id)
		whole(c, &kind)
		whole(c, &owner)
		c.bool(&l.late[i])
		whole(c, &l.starved[i])
		if c.reading && !l.add(i, id, kind, owner) {
			c.failed = true
		}
	}
	for i := range n * r {
		whole(c, &l.waited[i])
		whole(c, &l.got[i])
	}
	l.kept = list(c, l.kept, MaxHolds, func(k *keptUse) {
		whole(c, &k.task)
		whole(c, &k.resource)
		c.float(&k.amount)
		c.float(&k.own)
		c.bool(&k.idle)
		c.failed = c.failed || k.task < 0 || int(k.task) >= n || k.resource < 0 || int(k.resource) >= r
	})
}

func (w *recent) visit(c *codec) {
	for k := range w.late {
		c.float(&w.late[k].late)
		c.float(&w.late[k].resolved)
		c.float(&w.late[k].found)
	}
	for _, f := range []*float64{&w.done, &w.seconds, &w.taken, &w.inFlight, &w.others, &w.looks, &w.delayed.waiting, &w.delayed.busy} {
		c.float(f)
	}
	w.lost = list(c, w.lost, MaxResources, c.float)
	w.delayed.lost = list(c, w.delayed.lost, MaxResources, c.float)
	whole(c, &w.still)
	w.past.visit(c)
}

func (n *normal) visit(c *codec) {
	whole(c, &n.seen)
	whole(c, &n.above.lasted)
	for _, f := range []*float64{&n.throughput, &n.noise, &n.above.done, &n.above.off, &n.inFlight, &n.taken, &n.busy, &n.met} {
		c.float(f)
	}
	whole(c, &n.metAt)
	n.lost = list(c, n.lost, MaxResources, c.float)
	n.usual = list(c, n.usual, MaxResources, c.float)
	n.held = list(c, n.held, MaxResources, c.float)
	c.failed = c.failed || len(n.lost) != len(n.usual) || len(n.lost) != len(n.held)
	byKind(c, &n.kinds, func(k *seenKind) *uint64 { return &k.kind }, func(k *seenKind) {
		whole(c, &k.at)
		whole(c, &k.since)
	})
}

// byKind visits the entries of a table by kind that are in use. kindOf returns where an entry has its kind, which is 0
// while it is not in use, and rest visits what else it has.
func byKind[T any](c *codec, all *[seenKinds]T, kindOf func(*T) *uint64, rest func(*T)) {
	used := 0
	for i := range all {
		if *kindOf(&all[i]) != 0 {
			used++
		}
	}
	if c.reading {
		*all = [seenKinds]T{}
	}
	at := 0
	for whole(c, &used); used > 0 && !c.failed; used-- {
		for !c.reading && *kindOf(&all[at]) == 0 {
			at++
		}
		k := all[at]
		whole(c, kindOf(&k))
		rest(&k)
		if c.reading {
			all[placeOf(*kindOf(&k))] = k
		}
		at = min(at+1, seenKinds-1)
	}
}

func (all *endings) visit(c *codec) {
	byKind(c, (*[seenKinds]ending)(all), func(k *ending) *uint64 { return &k.kind }, func(k *ending) {
		whole(c, &k.at)
		c.float(&k.held)
		c.bool(&k.doubt)
	})
}

func (k *cancels) visit(c *codec) {
	k.recent = list(c, k.recent, 1<<16, func(at *mono.Time) { whole(c, at) })
	whole(c, &k.total)
	whole(c, &k.completed)
	k.taken = list(c, k.taken, MaxTasks, func(t *stepTaken) {
		whole(c, &t.task)
		whole(c, &t.step)
		whole(c, &t.seen)
		c.failed = c.failed || t.step > reported
	})
	k.kinds = list(c, k.kinds, 1<<16, func(s *knownKind) {
		whole(c, &s.kind)
		whole(c, &s.until)
	})
	p := &k.pending
	c.bool(&p.active)
	whole(c, &p.task)
	whole(c, &p.step)
	whole(c, &p.at)
	whole(c, &p.first)
	whole(c, &p.stuck)
	c.bool(&p.several)
	c.bool(&p.dam)
	whole(c, &p.patience)
	whole(c, &k.futile)
	whole(c, &k.notBefore)
	c.bool(&k.tripped)
	c.failed = c.failed || k.futile < 0 || p.step >= steps || p.stuck < 0 || p.patience < 0
}

// codec writes fields to buf, or reads them from its front.
type codec struct {
	buf     []byte
	reading bool
	failed  bool
}

// whole writes or reads an integer as a varint.
func whole[T ~int | ~int32 | ~int64 | ~uint8 | ~uint64](c *codec, x *T) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, int64(*x))
		return
	}
	value, n := binary.Varint(c.buf)
	if n <= 0 || c.failed || int64(T(value)) != value {
		c.failed = true
		return
	}
	*x, c.buf = T(value), c.buf[n:]
}

// float writes or reads a number as its bits, and refuses what no sum here can be.
func (c *codec) float(x *float64) {
	bits := math.Float64bits(*x)
	if whole(c, &bits); c.reading && !c.failed {
		if *x = math.Float64frombits(bits); math.IsNaN(*x) || math.IsInf(*x, 0) {
			c.failed = true
		}
	}
}

func (c *codec) bool(x *bool) {
	var bit uint8
	if *x {
		bit = 1
	}
	if whole(c, &bit); c.reading {
		*x = bit == 1
		c.failed = c.failed || bit > 1
	}
}

// list writes or reads a slice of at most most elements.
func list[T any](c *codec, s []T, most int, each func(*T)) []T {
	n := len(s)
	if whole(c, &n); c.failed || n < 0 || n > most || c.reading && n > len(c.buf) { // an element takes a byte at least
		c.failed = true
		return s
	}
	if c.reading {
		s = resized(s, n)
	}
	for i := range s {
		each(&s[i])
	}
	return s
}
