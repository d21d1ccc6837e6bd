package hold

import (
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

// pool is memory of a fixed number of pages. The foreground needs the hot ones;
// guests fill it with theirs. A page that comes in takes a free place, or that of
// any page. Counts are means, so that a chunk of pages is one event.
type pool struct {
	size, hot float64
	resident  float64 // hot pages that are in
	guests    float64 // pages of guests that are in
	history   float64 // old pages, if the resource is a History
	snapshots int
}

func (p *pool) free() float64 { return max(p.size-p.resident-p.guests, 0) }

// vacate frees the pages of a task that ends.
func (p *pool) vacate(pages int) { p.guests = max(p.guests-float64(pages), 0) }

// forget ends a snapshot; without any the old pages are purged.
func (p *pool) forget() {
	if p.snapshots--; p.snapshots == 0 {
		p.history = 0
	}
}

// touch uses the next chunk of the present operation's pages.
func (a *app) touch(n int32) {
	t := &a.tasks[n]
	o := &t.program.Ops[t.op]
	units := min(max(o.Chunk, 1), t.left)
	t.left -= units
	r := &a.cfg.Resources[o.Resource]
	p, c := &a.pools[o.Resource], &t.cells[o.Resource]
	var lost time.Duration
	switch {
	case r.History:
		lost = time.Duration(float64(r.Miss) * p.history / 1000 * float64(units))
		if p.snapshots > 0 {
			p.history += float64(units)
		}
		c.gets += uint64(units)
		if lost > 0 {
			c.waits += uint64(units)
		}
	case t.load >= 0 && r.Heap:
		lost = a.touchHeap(p, c, units, r.Miss)
	case t.load >= 0:
		lost = a.touchHot(p, c, units, r.Miss)
	case r.Heap:
		units = min(units, int(p.size-p.guests))
		c.gets += uint64(units)
		c.used += units
		p.guests += float64(units)
	default:
		a.touchCold(p, c, units)
	}
	c.waitTime += lost
	a.takeTime(n, o.draw(t.chance)+lost)
}

// touchHot uses hot pages: each misses with the share of them that is not in.
func (a *app) touchHot(p *pool, c *cell, units int, miss time.Duration) time.Duration {
	c.gets += uint64(units)
	misses := 0
	for range units {
		if a.dice.Float64()*p.hot >= p.resident {
			misses++
			if p.free() < 1 { // takes the place of a guest's page, or of another hot one
				if a.dice.Float64()*p.size < p.guests {
					a.evictGuest(p)
				} else {
					p.resident--
				}
				c.waits++
			}
			p.resident++
		}
	}
	return time.Duration(misses) * miss
}

// touchHeap uses hot pages of a heap.
func (a *app) touchHeap(p *pool, c *cell, units int, miss time.Duration) time.Duration {
	c.gets += uint64(units)
	short := (p.hot + p.guests - p.size) / p.hot
	collected := 0
	for range units {
		if a.dice.Float64() < short {
			collected++
		}
	}
	c.waits += uint64(collected)
	return time.Duration(collected) * miss
}

// touchCold brings a guest's pages in.
func (a *app) touchCold(p *pool, c *cell, units int) {
	c.gets += uint64(units)
	for range units {
		if p.free() < 1 {
			c.waits++
			if a.dice.Float64()*p.size < p.guests {
				a.evictGuest(p)
			} else {
				p.resident = max(p.resident-1, 0)
			}
		}
		p.guests++
		c.used++
	}
}

// evictGuest takes a page from a guest, in proportion to what each has.
func (a *app) evictGuest(p *pool) {
	pick := a.dice.Float64() * p.guests
	for _, n := range a.alive {
		t := &a.tasks[n]
		if t.guest < 0 {
			continue
		}
		for r := range a.pools {
			if &a.pools[r] != p {
				continue
			}
			if pick -= float64(t.cells[r].used); pick < 0 && t.cells[r].used > 0 {
				t.cells[r].used--
				t.cells[r].frees++
				p.guests--
				return
			}
		}
	}
	p.guests = max(p.guests-1, 0)
}

// versions returns how many old pages task n's snapshot keeps.
func (a *app) versions(n int32, r int) uint64 {
	if !a.cfg.Resources[r].History || a.tasks[n].cells[r].heldSince == culprit.Unset {
		return 0
	}
	return uint64(a.pools[r].history) / uint64(max(a.pools[r].snapshots, 1))
}
