package proxy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// failureWeight is how long a failure counts as a request that is still
	// there: the time in which its weight falls to 1/e. At a second, an upstream
	// with the limit L that fails at once is chosen no more often than about L
	// times a second for each slot-load that the others have, where by its
	// running requests alone it would seem idle and be chosen always.
	failureWeight = time.Second
	// leastWeight is the weight below which failures count for nothing: the load of one request
	// at a limit of 100. Without a bound, an upstream that failed once got nothing while the others
	// were idle, for 12 minutes.
	leastWeight = 0.01
	// longestPause is the longest time between two probes of an upstream, and how
	// long one must have stayed in for the next pause to be the shortest again.
	longestPause = 30 * time.Second
	// cheapProbe is the part of the first pause in which a connection is refused that costs next to nothing: its request
	// goes on to another upstream. The pauses between such probes do not grow, so that a server that was down for long is
	// found as soon as one that was down for a second.
	cheapProbe = 10
)

func (h Health) withDefaults() Health {
	if h.Pause == 0 {
		h.Pause = time.Second
	}
	if h.Failures == 0 {
		h.Failures = 5
	}
	h.Check = h.Check.withDefaults()
	return h
}

// check finds the mistakes in h, which stands in field.
func (h Health) check(wrong func(field, value, want string), field string) {
	if n := h.Failures; n > 1_000_000 {
		wrong(field+".failures", strconv.Itoa(n), "1 to 1000000, 0 for the default, or never")
	}
	if d := h.Pause; d < 0 || d > longestPause {
		wrong(field+".pause", d.String(), fmt.Sprintf("0s to %v", longestPause))
	}
	h.Check.check(wrong, field+".check")
	switch {
	case h.Ready < 0 || h.Ready > MaxUpstreams:
		wrong(field+".ready", strconv.Itoa(h.Ready), fmt.Sprintf("1 to %d, or 0 for readiness that does not depend on upstreams", MaxUpstreams))
	case h.Ready > 0 && !h.Check.on():
		wrong(field+".ready", strconv.Itoa(h.Ready), "check beside it: a proxy that is not ready gets no requests, and without them or checks no upstream would be back")
	}
}

// result is what one request says about the upstream.
type result uint8

const (
	wellDone    result = iota
	wellButLate        // answered after the objective
	failed             // answered 500, 502, 503 or 504, broke off, or was too slow
	cutShort           // answered, and broke off in the middle of the body
	unreachable        // could not be connected to
	saysNothing        // refused by a gate, or the client's or the proxy's own doing
)

// well reports whether there was an answer that is no failure.
func (r result) well() bool { return r <= wellButLate }

// cause is why an upstream is out.
type cause uint8

const (
	failing cause = iota // or out of reach, or it fails its checks
	silent               // see silence; any answer that is no failure brings it back
	tooLate              // see tardy; an answer in time brings it back
)

// health is what the requests of an upstream say about it, and its checks, if there are
// any. An upstream with some failures in a row is put out: it gets one
// request, the probe, when its pause is over, and comes back with the first that
// goes well. A probe that goes wrong, and one that leads nowhere, is followed by
// another after a pause, twice as long if it went wrong.
//
// Where no answer is expected, the request of a probe is lost, and so the pauses grow. Between such probes there are
// glances, a pause apart: requests that may be executed twice, and that go to another upstream if half of the objective
// brings no answer.
type health struct {
	rule   Health
	goesOn bool // a request that cannot be sent goes to another upstream, see Limits.Retries

	// isOut is out, for readers without the lock; written with the lock held.
	isOut atomic.Bool
	// cuts is the answers in a row that broke off in their bodies; see whole.
	cuts atomic.Int32

	mu     sync.Mutex
	row    int       // failures in a row, those of cuts left out: their headers were well
	weight float64   // of failures, at weighed
	last   mono.Time // when weight was true
	out    bool
	since  mono.Time     // of out, or of being back
	probe  mono.Time     // not before
	pause  time.Duration // between probes
	glance mono.Time     // not before; of what is out because it is silent
	checks int           // in a row: good ones, or as a negative number bad ones
	ill    bool          // it fails its checks, and is out until they are good
	why    cause         // of out
	said   bool          // it is known to be out: late answers in a row may be chance
	failed int64         // counts failures
	outs   int64         // counts times out
}

// note takes the result of a request that was sent at began. If the upstream
// would have to be put out, mayLeave says whether it can be; it is called
// with the lock of h held. left reports that it was put out, or that it is clear by now why, back that it is back; neither if
// it was out for late answers until one came in time that was under way.
func (h *health) note(now, began mono.Time, r result, mayLeave func(r result) bool) (left, back bool) {
	if r == saysNothing {
		return false, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out && began < h.since && !(h.why == silent && r.well() || h.why == tooLate && r == wellDone) {
		return false, false // sent before; it is known by now
	}
	if r.well() {
		h.row = 0
		switch {
		case !h.out || h.ill:
		case h.why == tooLate && r == wellButLate:
			left = !h.said // a probe that is late shows that it was not chance
			h.said = true
		default:
			back = h.said
			h.out, h.since = false, now
			h.isOut.Store(false)
		}
		return left, back
	}
	h.failed++
	h.weight = h.weightAt(now) + 1
	h.last = now
	cuts := h.cuts.Load()
	if r == cutShort {
		cuts = h.cuts.Add(1)
	} else {
		h.row++
	}
	switch {
	case h.rule.Failures < 0:
	case h.out && r == unreachable && h.goesOn && now.Sub(began) <= h.rule.Pause/cheapProbe:
		h.probe = now.Add(h.pause) // as soon as before: the request went to another upstream at once
	case h.out:
		h.pause = min(2*h.pause, longestPause)
		h.probe = now.Add(h.pause)
	case (r == unreachable || max(h.row, int(cuts)) >= h.rule.Failures) && mayLeave(r):
		h.leave(now, failing)
		return true, false
	}
	return false, false
}

// leaveFor puts the upstream out for another cause than failing, if mayLeave says that this can be, and reports whether
// it did.
func (h *health) leaveFor(why cause, now mono.Time, mayLeave func(result) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out || !mayLeave(failed) {
		return false
	}
	h.leave(now, why)
	return true
}

// leave puts the upstream out, for a pause that is twice as long if it was back only a short time. The lock is held.
func (h *health) leave(now mono.Time, why cause) {
	if h.outs > 0 && why != tooLate && now.Sub(h.since) < longestPause {
		h.pause = min(2*h.pause, longestPause)
	} else {
		h.pause = h.rule.Pause
	}
	h.out, h.why, h.said, h.since, h.probe, h.glance = true, why, why != tooLate, now, now.Add(h.pause), now.Add(h.rule.Pause)
	h.checks = min(h.checks, 0) // as many good checks bring it back as one that failed them
	h.isOut.Store(true)
	h.outs++
}

// whole notes that the body of an answer came to its end.
func (h *health) whole() {
	if h.cuts.Load() != 0 {
		h.cuts.Store(0)
	}
}

func (h *health) weightAt(now mono.Time) float64 {
	return h.weight * math.Exp(-now.Sub(h.last).Seconds()/failureWeight.Seconds())
}

// look returns whether the upstream is out, the weight of its failures, and
// whether it is time for a probe. mayGlance says that a glance is as good.
func (h *health) look(now mono.Time, mayGlance bool) (out, due bool, weight float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.weight > 0 {
		if weight = h.weightAt(now); weight < leastWeight {
			h.weight, weight = 0, 0
		}
	}
	return h.out, h.due(now, mayGlance) != nothingElse, weight
}

// due returns what it is time for. The lock is held.
func (h *health) due(now mono.Time, mayGlance bool) purpose {
	switch {
	case !h.out || h.ill:
		return nothingElse
	case now >= h.probe:
		return aProbe
	case mayGlance && h.why == silent && now >= h.glance:
		return aGlance
	}
	return nothingElse
}

// take claims the probe or the glance that is due, for one request. It returns nothingElse if another one has it.
func (h *health) take(now mono.Time, mayGlance bool) purpose {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := h.due(now, mayGlance)
	if due == nothingElse {
		return due
	}
	if due == aProbe {
		h.probe = now.Add(h.pause)
	}
	h.glance = now.Add(h.rule.Pause)
	return due
}

// probes notes that a request is sent for what it claimed, and reports whether it is a glance. A probe that is sent costs a
// request where no answer, or a late one, is expected: if it is answered well, the pause counts no more.
func (h *health) probes(now mono.Time, what purpose) (glance bool) {
	if what == nothingElse || !h.isOut.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if what == aGlance {
		return true
	}
	switch h.why {
	case silent:
		h.pause = min(2*h.pause, longestPause)
	case tooLate:
		h.pause = min(2*h.pause, longestTardy*h.rule.Pause)
	default:
		return false
	}
	h.probe = now.Add(h.pause)
	return false
}

// judged is the way to an upstream, seen by its health.
type judged struct {
	u *upstream
}

// RoundTrip implements http.RoundTripper.
func (j *judged) RoundTrip(r *http.Request) (*http.Response, error) {
	began := live.Now()
	call := (*j.u.calls.Load()).RoundTrip
	if j.u.health.probes(began, claimOf(r).at(j.u)) && mayTwice(r) {
		call = j.u.glancing(call)
	}
	answered := j.u.asked(r, began)
	resp, err := call(r)
	answered(err == nil)
	if err == errGlance {
		return nil, err // which says nothing new
	}
	what := judge(r, resp, err)
	if err == nil {
		resp.Request = r // with its body as ModifyResponse looks for it; what is further on wraps that
	}
	if what == failed && err == nil {
		// The work was not done, so its time says nothing.
		httpgate.Ignore(r.Context())
	}
	if what == wellDone {
		j.u.retries.earn()
		if resp.StatusCode != http.StatusSwitchingProtocols && resp.Body != nil && resp.Body != http.NoBody {
			resp.Body = &answerBody{ReadCloser: resp.Body, u: j.u, r: r, began: began}
		}
	}
	now := live.Now()
	if what == wellDone {
		what = j.u.timed(r, began, now)
	}
	j.u.note(now, began, what)
	return resp, err
}

// answerBody is the body of an answer whose header was well. It sees whether the body comes to
// its end: the reverse proxy breaks the answer off otherwise, and tells nobody why.
type answerBody struct {
	io.ReadCloser
	u     *upstream
	r     *http.Request
	began mono.Time
	ended bool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.ended {
		b.ended = true
		if err == io.EOF {
			b.u.health.whole()
		} else {
			b.u.truncated(b.r, b.began, err)
		}
	}
	return n, err
}

// truncated takes the error by which the body of an answer ended before its end.
func (u *upstream) truncated(r *http.Request, began mono.Time, err error) {
	what := whatFailed(r, err)
	switch what {
	case clientLeft:
		return
	case clientSlow, clientFoul:
	default:
		if over(r.Context()) {
			return
		}
		what = truncated
		u.note(live.Now(), began, cutShort)
		u.warn(what, err)
	}
	u.p.logOf(r).say(broken, string(what))
	u.failed.add(string(what))
}

// judge says what the end of a round trip means for the upstream.
func judge(r *http.Request, resp *http.Response, err error) result {
	if err != nil {
		var refusal *live.Refusal
		b, _ := r.Body.(*requestBody)
		switch {
		case errors.As(err, &refusal), over(r.Context()):
			return saysNothing
		case b != nil && (b.clients() || b.broken.Load()):
			return saysNothing
		}
		switch meaning(r.Context(), err) {
		case connectFailed:
			return unreachable
		case noFiles, clientFoul, largeHeader: // a client may have asked for what the header says
			return saysNothing
		}
		return failed
	}
	if resp.Header["Spillgate"] != nil || resp.Header["Spillgate-Bin"] != nil {
		return saysNothing // what the transport left there is a refusal
	}
	switch resp.StatusCode {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return failed
	}
	if st := resp.Header["Grpc-Status"]; len(st) == 1 && (st[0] == "13" || st[0] == "14") {
		return failed // INTERNAL, UNAVAILABLE, and not a word else
	}
	return wellDone
}

// note takes the result of a request, and says in the log what follows from it.
func (u *upstream) note(now, began mono.Time, r result) {
	switch left, back := u.health.note(now, began, r, u.leaves); {
	case left && r == wellButLate:
		u.p.log.Warn("upstream out of rotation: it answers after the objective", "upstream", u.name)
	case left:
		u.p.log.Warn("upstream out of rotation", "upstream", u.name, "reachable", r != unreachable)
	case back:
		u.p.log.Info("upstream back in rotation", "upstream", u.name)
	}
}

// leaves reports whether the upstream can be spared, and then shows it as out. The lock of its
// health is held; the lock sparing lets one upstream at a time decide. For their answers, up to
// half of the upstreams are put out, because a fault that more of them show is likely elsewhere.
// For not being reached, all but one are.
func (u *upstream) leaves(r result) bool {
	u.p.sparing.Lock()
	defer u.p.sparing.Unlock()
	all := u.p.state.Load().members(u.group)
	out := 1
	for _, other := range all {
		if other != u && other.health.isOut.Load() {
			out++
		}
	}
	if r == unreachable && out >= len(all) || r != unreachable && out > len(all)/2 {
		return false
	}
	u.health.isOut.Store(true)
	return true
}

// watchHealth makes the instruments for the health of all upstreams.
func (p *Proxy) watchHealth() error {
	meter := p.metrics.Meter()
	out, err1 := meter.Int64ObservableGauge("spillgate.upstream.out",
		metric.WithDescription("1 while the upstream is out of rotation because of failures, silence, late answers or checks."))
	outs, err2 := meter.Int64ObservableCounter("spillgate.upstream.outs",
		metric.WithDescription("Times that the upstream was taken out of rotation because of failures, silence, late answers or checks."))
	failures, err3 := meter.Int64ObservableCounter("spillgate.upstream.failures",
		metric.WithDescription("Requests that the upstream answered with 500, 502, 503 or 504, in part, or not at all. Refusals of an upstream's own gate do not count."))
	checks, err5 := meter.Int64ObservableCounter("spillgate.upstream.checks",
		metric.WithDescription("Checks of upstreams (health.check), by result: good or bad."))
	err4 := p.observeUpstreams(func(o metric.Observer, u *upstream) {
		name := metric.WithAttributes(attribute.String("upstream", u.name))
		u.health.mu.Lock()
		isOut, nFailed, nOuts := u.health.out, u.health.failed, u.health.outs
		u.health.mu.Unlock()
		var n int64
		if isOut {
			n = 1
		}
		o.ObserveInt64(out, n, name)
		o.ObserveInt64(outs, nOuts, name)
		o.ObserveInt64(failures, nFailed, name)
		if u.made.Health.Check.on() {
			upstream := attribute.String("upstream", u.name)
			o.ObserveInt64(checks, u.goodChecks.Load(), metric.WithAttributes(upstream, attribute.String("result", "good")))
			o.ObserveInt64(checks, u.badChecks.Load(), metric.WithAttributes(upstream, attribute.String("result", "bad")))
		}
	}, out, outs, failures, checks)
	return errors.Join(err1, err2, err3, err4, err5)
}
