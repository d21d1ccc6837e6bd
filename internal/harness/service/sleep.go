package service

import (
	"context"
	"math"
	"time"
)

// sleep serves j on a Sleep station. It is called with st.mu held and
// releases it.
func (st *Station) sleep(ctx context.Context, j *job) error {
	now := st.now()
	st.s.advance(now)
	if st.full() {
		st.s.counts.Refused++
		st.mu.Unlock()
		return ErrFull
	}
	st.s.arrive(now, j)
	st.arm()
	st.mu.Unlock()
	return st.await(ctx, j)
}

// full reports whether a request would have to wait and cannot.
func (st *Station) full() bool {
	return st.s.k > 0 && st.s.queue.Len() >= st.cfg.MaxQueue
}

// await waits until j is done, or leaves the queue when ctx ends first.
func (st *Station) await(ctx context.Context, j *job) error {
	select {
	case err := <-j.done:
		return result(ctx, err)
	case <-ctx.Done():
	}
	st.mu.Lock()
	if j.waiting != nil {
		st.s.leave(j)
		st.mu.Unlock()
		return ctx.Err()
	}
	st.mu.Unlock()
	return result(ctx, <-j.done)
}

func result(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return ctx.Err()
}

// arm lets the timer know if it must wake earlier than it plans to. The caller
// holds st.mu.
func (st *Station) arm() {
	if next, ok := st.s.next(); st.alarm != nil && ok && next < st.armed {
		st.armed = next
		st.alarm.Ring()
	}
}

// keepTime finishes jobs at their instants.
func (st *Station) keepTime() {
	const idle = time.Hour
	for {
		st.mu.Lock()
		if st.closed {
			st.mu.Unlock()
			return
		}
		now := st.now()
		st.s.advance(now)
		next, ok := st.s.next()
		if !ok {
			next = now + idle
			st.armed = math.MaxInt64
		} else {
			st.armed = next
		}
		st.mu.Unlock()
		st.alarm.Until(st.base.Add(next))
	}
}
