package phpfpm

import (
	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/mono"
)

// queue tells since when what lies in the accept queue has lain there. Of TCP the kernel tells one
// connection from another. Of a Unix socket it tells how many there are, and the page how many
// were taken since: they leave in the order in which they came.
type queue struct {
	at       location
	backlog  []procfs.Pending
	accepted uint64
	first    int64       // number of the one in front
	since    []mono.Time // of each
}

// look adds what waits now to a look.
func (q *queue) look(t *track.Tracker, resource int, now mono.Time, s *status) {
	wait := func(k track.Key, since mono.Time) {
		e := t.Task(k, since)
		_, session := t.At(e)
		session.State = "accept queue"
		if s.Idle == 0 { // else FPM lacks a processor, which no request is to blame for
			t.Waits(e, resource, since)
		}
	}
	if q.at.port != 0 {
		q.backlog = procfs.Backlog(q.backlog[:0], 0, q.at.port)
		for _, p := range q.backlog {
			wait(track.Key{Process: -1, Session: p.Client}, now.Add(-p.Waited))
		}
		return
	}
	n, ok := procfs.UnixBacklog(q.at.socket)
	if !ok {
		n = s.Queue
	}
	q.count(n, s.Accepted, now)
	for i, since := range q.since {
		wait(track.Key{Process: -1, Work: q.first + int64(i)}, since)
	}
}

// count enters how many wait now, and how many were taken in all.
func (q *queue) count(n int, accepted uint64, now mono.Time) {
	n = min(max(n, 0), mostWorkers)
	taken := accepted - q.accepted
	if accepted < q.accepted { // FPM was started again
		taken = uint64(len(q.since))
	}
	q.accepted = accepted
	// The page is taken, too, and at most what was there left.
	gone := max(int(min(taken, uint64(len(q.since)))), len(q.since)-n)
	q.since, q.first = append(q.since[:0], q.since[gone:]...), q.first+int64(gone)
	for len(q.since) < n {
		q.since = append(q.since, now)
	}
	if extra := len(q.since) - n; extra > 0 {
		q.since, q.first = append(q.since[:0], q.since[extra:]...), q.first+int64(extra)
	}
}
