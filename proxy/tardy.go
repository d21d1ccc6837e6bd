package proxy

import (
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// tardy is what an upstream has answered too late. One whose every answer is late, while every answer of another upstream of
// its group is in time, serves nobody: its requests go to the others, and those that are too many for these are refused. It is
// out until a probe, or a request from before, is answered in time. Where the others are late too, or kinds of requests are
// late everywhere, all stay. Its methods may be called at once from any goroutine.
type tardy struct {
	row   atomic.Int64 // late answers since the last one in time
	since atomic.Int64 // mono.Time when the first of them came
	wells atomic.Int64 // answers in time since the last late one
	well  atomic.Int64 // mono.Time when the last answer in time came; 0: never
}

// longestTardy is the longest pause between two probes of an upstream that is late, in pauses: such a probe costs a late
// answer, and no request.
const longestTardy = 4

// answers notes that an answer begins, and returns how many are late in a row, with it.
func (t *tardy) answers(now mono.Time, late bool) int64 {
	if !late {
		t.well.Store(int64(now))
		t.wells.Add(1)
		if t.row.Load() != 0 {
			t.row.Store(0)
		}
		return 0
	}
	if t.wells.Load() != 0 {
		t.wells.Store(0)
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
	if !late || u.gate.Stats().Mode != live.Enforce { // else it is back with any answer
		return wellDone
	}
	if most := int64(u.health.rule.Failures); most > 0 && n >= most && !u.health.isOut.Load() && u.otherInTime(most) {
		u.health.leaveFor(tooLate, now, u.leaves)
	}
	return wellButLate
}

// otherInTime reports whether the last answers of another upstream of the group, most of them or more, were all in time, and
// the last of these came since the upstream is late.
func (u *upstream) otherInTime(most int64) bool {
	since := u.tardy.since.Load()
	for _, other := range u.p.state.Load().members(u.group) {
		if other != u && other.tardy.wells.Load() >= most && other.tardy.well.Load() > since {
			return true
		}
	}
	return false
}
