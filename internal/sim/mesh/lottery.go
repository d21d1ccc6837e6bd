package mesh

import (
	"math/rand/v2"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// lottery is a line for each of the two classes, in order of arrival. Who is next
// is drawn once, when it is first asked for while both hold something.
type lottery struct {
	weight float64
	chance *rand.Rand
	lines  [work.NumClasses]line
	drawn  bool
	class  work.Class
}

func (l *lottery) len() int { return l.lines[work.Default].n + l.lines[work.Interactive].n }

func (l *lottery) push(now mono.Time, c *call) { l.lines[c.class].push(now, c) }
func (l *lottery) remove(c *call)              { l.lines[c.class].remove(c) }
func (l *lottery) expired(mono.Time) *call     { return nil }
func (l *lottery) nextWake() mono.Time         { return mono.Never }

// next returns who is.
func (l *lottery) next() *call {
	d, r := &l.lines[work.Default], &l.lines[work.Interactive]
	switch {
	case d.n == 0:
		return r.head
	case r.n == 0:
		return d.head
	case !l.drawn:
		l.drawn, l.class = true, work.Default
		if l.chance.Float64() < l.weight {
			l.class = work.Interactive
		}
	}
	return l.lines[l.class].head
}

func (l *lottery) pop(mono.Time) (*call, bool) {
	c := l.next()
	if c != nil {
		l.drawn = false
		l.remove(c)
	}
	return c, false
}

func (l *lottery) oldest() mono.Time {
	d, r := l.lines[work.Default].head, l.lines[work.Interactive].head
	if d == nil || r != nil && r.queuedAt < d.queuedAt {
		d = r
	}
	return d.queuedAt
}
