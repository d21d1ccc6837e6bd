package proxy

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/work"
)

// Access describes the access log: one JSON object a line and request. A request never
// waits for it: what is written too slowly is dropped, and counted.
type Access struct {
	// Path is a file that is appended to, or stderr or stdout. The file is created with mode
	// 0640, and opened again with each Reload, so that it may be renamed before. Default
	// none: nothing is logged.
	Path string
	// Served, Refused and Failed are the shares of requests that are logged, from 0 to 1:
	// of those that an upstream answered, of those that a gate or a rule refused, and of
	// all others (answers from 500 on, errors of clients, connections broken off). Default
	// 1; negative is none. Smaller costs less where many are refused.
	Served, Refused, Failed float64
}

func (a Access) withDefaults() Access {
	if a.Path == "" {
		return a
	}
	for _, rate := range [...]*float64{&a.Served, &a.Refused, &a.Failed} {
		if *rate == 0 {
			*rate = 1
		}
	}
	return a
}

// check finds the mistakes in a.
func (a Access) check(wrong func(field, value, want string)) {
	for _, rate := range [...]struct {
		name  string
		value float64
	}{{"served", a.Served}, {"refused", a.Refused}, {"failed", a.Failed}} {
		if !(rate.value <= 1) {
			wrong("access_log."+rate.name, strconv.FormatFloat(rate.value, 'g', -1, 64), "0 to 1: the share of requests that is logged")
		}
	}
	if a.Path == "" && a != (Access{}) {
		wrong("access_log.path", "", "a file, or stderr or stdout")
	}
}

// longestText is the most of a text from outside that is logged, in bytes.
const longestText = 1024

// access is what is known of one request for the access log.
type access struct {
	http.ResponseWriter
	log      *accessLog
	began    time.Time
	status   int
	size     int64
	group    string
	workflow string
	upstream string
	decision string // empty: as end says
	reason   string
	end      httpgate.End
	ends     int // gates that it was at
}

// The decisions beside those of gates.
const (
	exempted = "exempt"
	notFound = "unrouted"
	broken   = "fail"
)

type accessKey struct{}

// logOf returns the entry of a request, nil if it is not logged. Where there never was a
// log, no context is searched for it.
func (p *Proxy) logOf(r *http.Request) *access {
	if p.access.Load() == nil {
		return nil
	}
	a, _ := r.Context().Value(accessKey{}).(*access)
	return a
}

// enter begins the entry of r, which end writes.
func (l *accessLog) enter(w http.ResponseWriter, r *http.Request) (*access, *http.Request) {
	a := &access{ResponseWriter: w, log: l, began: time.Now()}
	return a, r.WithContext(context.WithValue(r.Context(), accessKey{}, a))
}

// say notes what the proxy itself decided about the request. a may be nil.
func (a *access) say(decision, reason string) {
	if a != nil {
		a.decision, a.reason = decision, reason
	}
}

// is notes the request's workflow, at the upstream that was chosen, and left what became
// of it at the gate.
func (a *access) is(workflow string) {
	if a != nil {
		a.workflow = workflow
	}
}

func (a *access) at(u *upstream) {
	if a != nil {
		a.group, a.upstream = u.group, u.name
		a.decision, a.reason = "", "" // at the one before
	}
}

func (a *access) left(e httpgate.End) {
	a.end = e
	a.ends++
}

// WriteHeader implements http.ResponseWriter.
func (a *access) WriteHeader(code int) {
	if a.status == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		a.status = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *access) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.size += int64(n)
	return n, err
}

// Hijack implements http.Hijacker.
func (a *access) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if a.status == 0 {
		a.status = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach the writer below.
func (a *access) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// line is one line of the log.
type line struct {
	Time     string  `json:"time"` // of the arrival
	Method   string  `json:"method"`
	Host     string  `json:"host"`
	Path     string  `json:"path"` // without the query, which may have secrets
	Protocol string  `json:"protocol"`
	Route    string  `json:"route"` // the group of upstreams; default without one
	Workflow string  `json:"workflow"`
	Status   int     `json:"status"`
	Bytes    int64   `json:"bytes"`
	Decision string  `json:"decision"`
	Reason   string  `json:"reason"`
	Refusal  string  `json:"refusal,omitempty"` // what PathRefusals knows it by
	Wait     float64 `json:"wait_seconds"`
	Service  float64 `json:"service_seconds"`
	Total    float64 `json:"total_seconds"`
	Upstream string  `json:"upstream,omitempty"`
	Tries    int     `json:"tries,omitempty"` // upstreams, if more than one
	Client   string  `json:"client"`
	For      string  `json:"forwarded_for,omitempty"` // what a trusted client says
	Trace    string  `json:"trace,omitempty"`
	Aborted  bool    `json:"aborted,omitempty"` // in the middle of the answer
}

// leave writes the entry, if it is one of those that are. returned says that the handler
// ended without a panic.
func (a *access) leave(s *state, r *http.Request, returned bool) {
	decision, reason := a.decided()
	rate := s.cfg.Access.Served
	switch {
	case decision == "refuse" || decision == "cancel":
		rate = s.cfg.Access.Refused
	case decision == broken || decision == notFound || !returned || a.status >= http.StatusInternalServerError || a.status == 0:
		rate = s.cfg.Access.Failed
	}
	if rate < 1 && rand.Float64() >= rate {
		return
	}
	out := line{
		Time: a.began.UTC().Format(time.RFC3339Nano), Method: short(r.Method), Host: short(r.Host), Path: short(r.URL.Path), Protocol: r.Proto,
		Route: label(a.group), Workflow: label(a.workflow), Status: a.status, Bytes: a.size, Decision: decision, Reason: reason,
		Wait: a.end.Waited.Seconds(), Service: a.end.Service.Seconds(), Total: time.Since(a.began).Seconds(),
		Upstream: a.upstream, Client: r.RemoteAddr, Aborted: !returned,
	}
	if decision == "refuse" && a.end.Refusal != 0 {
		out.Refusal = a.end.Refusal.String()
	}
	if a.ends > 1 {
		out.Tries = a.ends
	}
	if s.trusts(r) {
		out.For = short(strings.Join(r.Header["X-Forwarded-For"], ", "))
	}
	if id, ok, _ := traceOf(r.Header); ok {
		out.Trace = hex.EncodeToString(id[:])
	}
	text, err := json.Marshal(&out)
	if err != nil { // cannot be: it has texts and finite numbers
		return
	}
	a.log.put(append(text, '\n'))
}

// decided is what became of the request, and why.
func (a *access) decided() (decision, reason string) {
	switch {
	case a.decision != "":
		return a.decision, a.reason
	case a.ends == 0:
		return exempted, work.None.String()
	case !a.end.Admitted:
		return "refuse", a.end.Reason.String()
	case a.end.Reason == work.Culprit:
		return "cancel", a.end.Reason.String()
	case a.end.Reason != work.None:
		return "would_refuse", a.end.Reason.String()
	}
	return "admit", work.None.String()
}

func short(s string) string {
	if len(s) > longestText {
		return s[:longestText]
	}
	return s
}
