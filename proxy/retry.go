package proxy

import (
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/credit"
)

// retries is the budget of a group for sending requests to another upstream, with the bounds
// of credit.RetryBudget. It begins full: what one upstream does not take costs the others no
// more than if it had not been chosen, and the first request of all may meet the one that is
// down. Its methods may be called at once from any goroutine.
type retries struct{ spent atomic.Int64 } // in requests that go well

// earn notes a request that went well.
func (r *retries) earn() {
	if n := r.spent.Load(); n > 0 {
		r.spent.CompareAndSwap(n, n-1) // one that is lost to another does not matter
	}
}

// spend takes a retry out of the budget, and reports false if there is none.
func (r *retries) spend() bool {
	for {
		n := r.spent.Load()
		if n+credit.RetryCost > credit.RetryCost*credit.RetriesSaved {
			return false
		}
		if r.spent.CompareAndSwap(n, n+credit.RetryCost) {
			return true
		}
	}
}

// left reports whether there is a retry in the budget.
func (r *retries) left() bool {
	return r.spent.Load()+credit.RetryCost <= credit.RetryCost*credit.RetriesSaved
}

// again has r, which u did not answer, go on to another upstream of the group, and reports
// false if it must not, or there is none. w has nothing written to it.
func (u *upstream) again(w http.ResponseWriter, r *http.Request, what kind) bool {
	most := u.made.Limits.Retries
	if most < 0 || !repeatable(r, what) {
		return false
	}
	all := u.p.state.Load().members(u.group)
	if len(all) < 2 {
		return false
	}
	other := least(all, u, claimOf(r), false)
	if other == u {
		return false
	}
	if !u.retries.spend() {
		u.retried.add("budget")
		return false
	}
	if !httpgate.Another(w, other.target, most+1) {
		u.retries.spent.Add(-credit.RetryCost)
		return false
	}
	u.retried.add("sent")
	u.p.visitOf(r).chose(other)
	u.p.logOf(r).at(other)
	return true
}

// repeatable reports whether a request may be sent to another upstream: nothing of it went
// out, or it may be executed twice and has no body.
func repeatable(r *http.Request, what kind) bool {
	if over(r.Context()) {
		return false
	}
	if b, _ := r.Body.(*requestBody); b != nil && b.begun.Load() {
		return false // some of it may be gone
	}
	return what == connectFailed || what == brokeOff && mayTwice(r)
}

// mayTwice reports whether a request may be executed twice, and has no body.
func mayTwice(r *http.Request) bool {
	if b, _ := r.Body.(*requestBody); b != nil {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return r.Header.Get("Upgrade") == ""
	}
	return false
}
