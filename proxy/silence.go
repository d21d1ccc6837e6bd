package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// silence is what an upstream has not answered. An upstream that takes requests and answers none (a frozen process, a
// lost database behind it, a firewall that drops packets) fails no request: its clients leave first, and that a client
// leaves is no failure of an upstream. Because its requests are seldom over, it looks idle beside upstreams that work.
//
//	sent: 1 2 3 … n          n is Health.Failures or more, and the first is older than two objectives and a second:
//	      └── no answer ──▶   it is put out once the others have given Health.Failures answers each, in the mean
//
// A request is sent when its body is, which a client may take any time for, or when the upstream has taken no more of the
// body for as long as a silence is: see uptake. What is slow by nature, such as long polls, is
// slow at the other upstreams too: that so many of their answers come before one of its own is no chance. If it was, the next
// answer that is no failure brings the upstream back. Its methods may be called at once from any goroutine.
type silence struct {
	since   atomic.Int64 // mono.Time when the first request was sent that had no answer after it; 0: none
	sent    atomic.Int64 // requests since the last answer began
	answers atomic.Int64 // all that there were
	others  atomic.Int64 // 1 + the answers of the others when it was first suspected; 0: it is not
}

const (
	// leastSilence is the shortest silence that says anything: pauses for garbage and fail-overs take less.
	leastSilence = time.Second
	// silentFor is how many objectives a silence lasts: in an overload, requests inside take one.
	silentFor = 2
)

// asks notes that a request was sent at an instant.
func (s *silence) asks(sent mono.Time) {
	if s.since.Load() == 0 {
		s.since.CompareAndSwap(0, int64(sent))
	}
	s.sent.Add(1)
}

// unanswered returns how many requests were sent since the last answer, and since when.
func (s *silence) unanswered() (n int64, since mono.Time) {
	return s.sent.Load(), mono.Time(s.since.Load())
}

// hears notes that an answer begins.
func (s *silence) hears() {
	s.answers.Add(1)
	if s.others.Load() != 0 {
		s.others.Store(0)
	}
	s.sent.Store(0)
	s.since.Store(0) // after sent, so that requests are not counted from before the answer
}

// asked notes that r is sent to the upstream, at once or at the end of its body. answered is called once the call has
// returned.
func (u *upstream) asked(r *http.Request, now mono.Time) (answered func(bool)) {
	b, _ := r.Body.(*requestBody)
	var takes *uptake
	if b == nil || b.taken {
		u.asks(now, now)
	} else {
		b.reaches.Store(u)
		takes = u.watchUptake(b)
	}
	return func(yes bool) {
		if b != nil {
			b.reaches.Store(nil)
			takes.stop()
		}
		if yes {
			u.silence.hears()
		}
	}
}

// asks notes that a request was sent to the upstream, and puts it out if it is silent.
func (u *upstream) asks(now, sent mono.Time) {
	u.silence.asks(sent)
	u.suspect(now)
}

// patience is how long a silence is.
func (u *upstream) patience() time.Duration {
	return max(leastSilence, silentFor*u.gate.Objective())
}

// suspect puts the upstream out if it is silent.
func (u *upstream) suspect(now mono.Time) {
	n, since := u.silence.unanswered()
	most := int64(u.health.rule.Failures)
	if most < 0 || n < most || since == 0 || now.Sub(since) < u.patience() || u.health.isOut.Load() || !u.othersAnswer(most) {
		return
	}
	if u.health.leaveFor(silent, now, u.leaves) {
		u.p.log.Warn("upstream out of rotation: it does not answer", "upstream", u.name, "requests", n, "silent", now.Sub(since))
	}
}

// othersAnswer reports whether the other upstreams of the group, if there are any, gave most answers each, in the mean, since
// it was first asked in this silence.
func (u *upstream) othersAnswer(most int64) bool {
	sum, others := int64(0), int64(0)
	for _, other := range u.p.state.Load().members(u.group) {
		if other != u {
			sum += other.silence.answers.Load()
			others++
		}
	}
	before := u.silence.others.Load() - 1
	if before < 0 || sum < before { // fewer if one left the group
		u.silence.others.Store(sum + 1)
		return false
	}
	return others > 0 && sum-before >= most*others
}

// errGlance is the error of a request to a silent upstream that half of the objective brought no answer: it goes to another
// one.
var errGlance = fmt.Errorf("proxy: the upstream does not answer yet: %w", context.DeadlineExceeded)

// glancing returns what calls as call does, for half of the objective: the rest is for another upstream. The request is one
// that may be executed twice.
func (u *upstream) glancing(call func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(r.Context()) // which ends with the request
		timer := time.AfterFunc(cmp.Or(ruledOf(r).objective, u.gate.Objective())/2, cancel)
		resp, err := call(r.WithContext(ctx))
		if timer.Stop() {
			return resp, err
		}
		if err == nil { // at that moment, and its body is cut off
			_ = resp.Body.Close()
			u.silence.hears()
			what := judge(r, resp, nil)
			if what == wellDone {
				what = wellButLate
			}
			now := live.Now()
			u.note(now, now, what)
		}
		return nil, errGlance
	}
}
