package guard

import "github.com/spillgate/spillgate/guard/track"

// numbers keep the numbers of tasks apart that come over one connection and over the next. Each
// source counts from one, and the engine, which outlives them, remembers tasks by their numbers:
// what it did to one must not count for another.
type numbers struct{ base, last uint64 }

// enter gives the tasks of a look numbers that no task of an earlier connection had.
func (n *numbers) enter(l *track.Look) {
	for i := range l.Sample.Tasks {
		l.Sample.Tasks[i].ID += n.base
		n.last = max(n.last, l.Sample.Tasks[i].ID)
	}
}

// own returns the number that the source itself gave to a task.
func (n *numbers) own(task uint64) uint64 { return task - n.base }
