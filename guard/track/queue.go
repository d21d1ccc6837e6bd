package track

// Queues groups rows of a lock table by the lock, the locks in order of their first rows.
func Queues[T any](rows []T, lock func(*T) string) [][]*T {
	var queues [][]*T
	place := map[string]int{}
	for i := range rows {
		name := lock(&rows[i])
		at, known := place[name]
		if !known {
			at = len(queues)
			place[name] = at
			queues = append(queues, nil)
		}
		queues[at] = append(queues[at], &rows[i])
	}
	return queues
}

// Blockers returns whom a request waits for, of those in front of it in the queue of a lock, the
// holders first: all holders of what conflicts with it, or, where nobody holds such, the first that
// asked earlier for what does.
func Blockers[T any](front []*T, conflicts, granted func(*T) bool) []*T {
	var all []*T
	for _, h := range front {
		if !conflicts(h) {
			continue
		}
		if granted(h) {
			all = append(all, h)
			continue
		}
		if len(all) == 0 {
			all = append(all, h)
		}
		break
	}
	return all
}
