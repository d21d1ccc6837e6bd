package service

import (
	"context"
	"time"
)

// spin serves j on a Spin station: it waits for a server, then burns the
// caller's processor. It is called with st.mu held and releases it.
func (st *Station) spin(ctx context.Context, j *job) error {
	if st.s.k > 0 && int(st.s.counts.Started-st.s.counts.Finished) >= st.s.k {
		if st.full() {
			st.s.counts.Refused++
			st.mu.Unlock()
			return ErrFull
		}
		j.waiting = st.s.queue.PushBack(j)
		st.mu.Unlock()
		select {
		case err := <-j.done: // nil: a server was handed over
			if err != nil {
				return err
			}
		case <-ctx.Done():
			st.mu.Lock()
			if j.waiting != nil {
				st.s.leave(j)
				st.mu.Unlock()
				return ctx.Err()
			}
			st.mu.Unlock()
			if err := <-j.done; err != nil {
				return err
			}
		}
	} else {
		st.s.counts.Started++
		st.mu.Unlock()
	}

	st.burn(j.work)

	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.counts.Finished++
	err := ctx.Err()
	if err != nil {
		st.s.counts.Wasted++
	}
	st.handOver()
	return err
}

// handOver gives the caller's server to the first waiting job whose caller
// still wants it.
func (st *Station) handOver() {
	for front := st.s.queue.Front(); front != nil; front = st.s.queue.Front() {
		j := front.Value.(*job)
		if err := j.ctx.Err(); err != nil {
			st.s.leave(j)
			j.done <- err
			continue
		}
		st.s.queue.Remove(front)
		j.waiting = nil
		st.s.counts.Started++
		j.done <- nil
		return
	}
}

// notRunning is a gap between two clock reads, some 50 ns apart while the
// goroutine runs, which says that it did not run in between.
const notRunning = 2 * time.Microsecond

// burn uses the processor for work, slowed as the plan says. A gap between
// two clock reads counts as notRunning at most, so being preempted is not
// mistaken for working.
func (st *Station) burn(work time.Duration) {
	left := float64(work)
	last := st.now()
	for left > 0 {
		now := st.now()
		left -= float64(min(now-last, notRunning)) / st.slow.Load().at(now)
		last = now
	}
}
