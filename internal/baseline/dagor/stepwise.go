package dagor

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// stepwise is the law of Breakwater's authors: a smoothed look at the oldest
// request every Monitor, a step of the level once a window that had requests.
// Their C code cuts the smoothed delay to whole microseconds at each look, which
// lowers it by up to 5 µs; this one does not.
type stepwise struct {
	threshold, window, monitor time.Duration
	requests                   int
	level                      float64
	delay                      float64 // ns, smoothed
	seen                       int
	updated, next              mono.Time
	begun                      bool
}

// Constants of dg_config.h and dg_server.c.
const (
	firstLevel = 32
	down       = 0.95
	up         = 0.01 * float64(levels)
	keepDelay  = 0.8
)

func newStepwise(cfg Config) *stepwise {
	return &stepwise{threshold: cfg.Threshold, window: cfg.Window, monitor: cfg.Monitor, requests: cfg.Requests, level: firstLevel}
}

func (s *stepwise) get() int { return int(s.level) }

func (s *stepwise) onArrival(now mono.Time, _ work.Priority, _ bool) {
	if !s.begun {
		s.begun, s.updated, s.next = true, now, now.Add(s.monitor)
	}
	if s.seen == 0 && s.next < now { // slept while idle
		s.next = now.Add(s.monitor)
	}
	s.seen++
}

func (s *stepwise) onStart(mono.Time, time.Duration) {}

func (s *stepwise) wake() mono.Time {
	if s.seen == 0 && s.delay < 1 {
		return mono.Never // idle: the level does not move without requests
	}
	return s.next
}

// onWake looks at the queue. A late call is one look, not several.
func (s *stepwise) onWake(now mono.Time, delay time.Duration) {
	if !s.begun || now < s.next {
		return
	}
	s.next = now.Add(s.monitor)
	s.delay = keepDelay*s.delay + (1-keepDelay)*float64(delay)
	if s.seen == 0 || now.Sub(s.updated) < s.window && s.seen < s.requests {
		return
	}
	if s.delay >= float64(s.threshold) {
		s.level *= down
	} else {
		s.level += up
	}
	s.level = math.Min(math.Max(s.level, 1), float64(levels-1))
	s.updated, s.seen = now, 0
}
