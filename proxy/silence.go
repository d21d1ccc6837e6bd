package proxy

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// silence is what an upstream has not answered. An upstream that takes requests and answers none (a frozen process, a
// lost database behind it, a firewall that drops packets) fails no request: its clients leave first, and that a client
// leaves is no failure of an upstream. Because its requests are seldom over, it looks idle beside upstreams that work.
//
//	sent: 1 2 3 … n          n is Health.Failures or more, and the first is older than two objectives and a second,
//	      └── no answer ──▶   and another upstream of the group has answered since: it is put out
//
// What is slow by nature, such as long polls, is slow at the other upstreams too; where chance has it that only the others
// answer, the next answer brings the upstream back. Its methods may be called at once from any goroutine.
type silence struct {
	since atomic.Int64 // mono.Time when the first request was sent that had no answer after it; 0: none
	sent  atomic.Int64 // requests since the last answer began
	heard atomic.Int64 // mono.Time when that was; 0: never
}

const (
	// leastSilence is the shortest silence that says anything: pauses for garbage and fail-overs take less.
	leastSilence = time.Second
	// silentFor is how many objectives a silence lasts: in an overload, requests inside take one.
	silentFor = 2
)

// asks notes that a request is sent, and returns how many were, with it, since the last answer, and since when.
func (s *silence) asks(now mono.Time) (n int64, since mono.Time) {
	if s.since.Load() == 0 {
		s.since.CompareAndSwap(0, int64(now))
	}
	return s.sent.Add(1), mono.Time(s.since.Load())
}

// hears notes that an answer begins.
func (s *silence) hears(now mono.Time) {
	s.heard.Store(int64(now))
	s.sent.Store(0)
	s.since.Store(0) // after sent, so that requests are not counted from before the answer
}

// asks notes that a request is sent to the upstream, and puts it out if it is silent.
func (u *upstream) asks(now mono.Time) {
	n, since := u.silence.asks(now)
	most := u.health.rule.Failures
	if most < 0 || n < int64(most) || since == 0 || now.Sub(since) < max(leastSilence, silentFor*u.gate.Objective()) {
		return
	}
	heard := func(o *upstream) *atomic.Int64 { return &o.silence.heard }
	if u.health.leaveFor(silent, now, func(result) bool { return u.othersSince(since, heard) && u.leaves(failed) }) {
		u.p.log.Warn("upstream out of rotation: it does not answer", "upstream", u.name, "requests", n, "silent", now.Sub(since))
	}
}

// othersSince reports whether what is an instant of another upstream of the group comes after since.
func (u *upstream) othersSince(since mono.Time, what func(*upstream) *atomic.Int64) bool {
	for _, other := range u.p.state.Load().members(u.group) {
		if other != u && mono.Time(what(other).Load()) > since {
			return true
		}
	}
	return false
}
