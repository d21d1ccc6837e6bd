package service

import (
	"container/heap"
	"container/list"
	"context"
	"time"
)

// servers is the arithmetic of a station: k servers behind one FIFO queue, in
// time that is told to it.
//
// A server that becomes free at t starts its next job at t, or at the job's
// arrival if that was later, even when advance is only called afterwards. So a
// late timer delays the news of a completion, but never costs capacity.
type servers struct {
	k       int // 0: no limit
	plan    plan
	running runHeap
	queue   list.List // of *job
	counts  Counts
}

// job is one request at a station.
type job struct {
	ctx     context.Context
	work    time.Duration
	arrived time.Duration
	started time.Duration
	finish  time.Duration
	waiting *list.Element // its place in the queue, nil once it left that
	done    chan error    // receives once: nil when finished
}

// arrive takes in a job at now, at which advance has already been called.
func (s *servers) arrive(now time.Duration, j *job) {
	j.arrived = now
	if s.k == 0 || len(s.running) < s.k {
		s.start(now, j)
		return
	}
	j.waiting = s.queue.PushBack(j)
}

func (s *servers) start(at time.Duration, j *job) {
	s.counts.Started++
	j.started = at
	j.finish = s.plan.finish(at, j.work)
	heap.Push(&s.running, j)
}

// leave takes a waiting job out of the queue.
func (s *servers) leave(j *job) {
	s.queue.Remove(j.waiting)
	j.waiting = nil
	s.counts.Abandoned++
}

// advance finishes what is finished by now, in order, and starts what can then
// start. Jobs whose callers gave up while they waited never start.
func (s *servers) advance(now time.Duration) {
	for len(s.running) > 0 && s.running[0].finish <= now {
		j := heap.Pop(&s.running).(*job)
		s.counts.Finished++
		if j.ctx.Err() != nil {
			s.counts.Wasted++
		}
		j.done <- nil
		s.startNext(j.finish)
	}
}

// startNext gives a server that became free at an instant to the first
// waiting job whose caller still wants it.
func (s *servers) startNext(free time.Duration) {
	for front := s.queue.Front(); front != nil; front = s.queue.Front() {
		j := front.Value.(*job)
		if err := j.ctx.Err(); err != nil {
			s.leave(j)
			j.done <- err
			continue
		}
		s.queue.Remove(front)
		j.waiting = nil
		s.start(max(free, j.arrived), j)
		return
	}
}

// next returns when advance has something to do next.
func (s *servers) next() (time.Duration, bool) {
	if len(s.running) == 0 {
		return 0, false
	}
	return s.running[0].finish, true
}

// replan changes the speed. The change must not lie before an instant up to
// which advance was called.
func (s *servers) replan(p plan) {
	s.plan = p
	for _, j := range s.running {
		j.finish = p.finish(j.started, j.work)
	}
	heap.Init(&s.running)
}

// runHeap orders the running jobs by when they finish, then by when they
// arrived.
type runHeap []*job

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(a, b int) bool {
	if h[a].finish != h[b].finish {
		return h[a].finish < h[b].finish
	}
	return h[a].arrived < h[b].arrived
}
func (h runHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*job)) }
func (h *runHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return j
}
