package guard

import "github.com/spillgate/spillgate/guard/track"

// numbers keep apart what comes over one connection and over the next. Each source counts tasks
// from one, and the engine, which outlives them, remembers tasks by their numbers: what it did to
// one must not count for another. Nor is the time without a connection one in which nothing ended.
type numbers struct {
	base, last uint64
	anew       bool
}

// begin begins a connection.
func (n *numbers) begin() { n.base, n.anew = n.last, true }

// enter gives the tasks of a look numbers that no task of an earlier connection had, and tells the
// engine of the first look of a connection.
func (n *numbers) enter(l *track.Look) {
	l.Sample.Anew, n.anew = n.anew, false
	for i := range l.Sample.Tasks {
		l.Sample.Tasks[i].ID += n.base
		n.last = max(n.last, l.Sample.Tasks[i].ID)
	}
}

// own returns the number that the source itself gave to a task.
func (n *numbers) own(task uint64) uint64 { return task - n.base }
