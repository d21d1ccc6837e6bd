package service

import (
	"math"
	"slices"
	"time"
)

// plan says how slow a station is at each instant: 1 is its normal speed, 4
// takes four times as long. A plan is never changed, only replaced.
type plan []change

// change sets the slowness from an instant on, counted from the station's
// start.
type change struct {
	at   time.Duration
	slow float64
}

// with returns the plan with one more change. Of changes at one instant, the
// last one made counts.
func (p plan) with(c change) plan {
	i := len(p)
	for i > 0 && p[i-1].at > c.at {
		i--
	}
	return slices.Insert(slices.Clone(p), i, c)
}

// at returns the slowness at an instant.
func (p plan) at(t time.Duration) float64 {
	slow := 1.0
	for _, c := range p {
		if c.at > t {
			break
		}
		slow = c.slow
	}
	return slow
}

// finish returns when work begun at start is done, where work is the time it
// takes at normal speed. Work under way when the slowness changes goes on at
// the new speed.
func (p plan) finish(start, work time.Duration) time.Duration {
	t, left := start, float64(work)
	slow := 1.0
	for _, c := range p {
		if c.at <= t {
			slow = c.slow
			continue
		}
		if done := float64(c.at-t) / slow; done >= left {
			break
		} else {
			left -= done
		}
		t, slow = c.at, c.slow
	}
	return t + time.Duration(min(math.Round(left*slow), math.MaxInt64/4))
}
