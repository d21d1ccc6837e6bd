package proxy

import (
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// tardy is what an upstream has answered too late. One whose every answer is late, while another upstream of its group
// answers in time, serves nobody: its requests go to the others, and those that are too many for these are refused. It is
// out until a probe, or a request from before, is answered in time. Where the others are late too, all stay, because late
// answers are then all there is. Its methods may be called at once from any goroutine.
type tardy struct {
	row   atomic.Int64 // late answers since the last one in time
	since atomic.Int64 // mono.Time when the first of them came
	well  atomic.Int64 // mono.Time when the last answer in time came; 0: never
}

// longestTardy is the longest pause between two probes of an upstream that is late, in pauses: such a probe costs a late
// answer, and no request.
const longestTardy = 4

// answers notes that an answer begins, and returns how many are late in a row, with it.
func (t *tardy) answers(now mono.Time, late bool) int64 {
	if !late {
		t.well.Store(int64(now))
		if t.row.Load() != 0 {
			t.row.Store(0)
		}
		return 0
	}
	n := t.row.Add(1)
	if n == 1 {
		t.since.Store(int64(now))
	}
	return n
}

// timed returns the result of a request that was sent at began, went well, and whose answer begins now: late if that is
// after the objective. It puts the upstream out if that is so of each. A body that was not read before tells of its client.
func (u *upstream) timed(r *http.Request, began, now mono.Time) result {
	if b, _ := r.Body.(*requestBody); b != nil && !b.taken {
		return wellDone
	}
	objective := u.gate.Objective()
	if own := ruledOf(r).objective; own > 0 {
		objective = own
	}
	late := now.Sub(began) > objective
	n := u.tardy.answers(now, late)
	if !late {
		return wellDone
	}
	if most := u.health.rule.Failures; most > 0 && n >= int64(most) {
		since := mono.Time(u.tardy.since.Load())
		u.health.leaveFor(tooLate, now, func(result) bool {
			return u.gate.Stats().Mode == live.Enforce && u.othersSince(since, func(o *upstream) *atomic.Int64 { return &o.tardy.well }) && u.leaves(failed)
		})
	}
	return wellButLate
}
