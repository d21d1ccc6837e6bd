package proxy

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/tracer"
)

// A rule may say what requests do inside of a server that cannot say so itself
// (classify.Use). The proxy tells the gate's culprit engine as if the server had:
//
//	holds: index ──▶ Acquire ─ ─ ─ while the server works on it ─ ─ ─ Release
//	needs: index ──▶ WaitBegin ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ WaitEnd
//
// When a request gets what it needs cannot be seen, so it seems to wait to its end. That
// blames no one as long as no request holds the resource for longer than an objective.

// ruled is what a request's context keeps of what the rules say.
type ruled struct {
	objective time.Duration // 0: that of the gate
	use       classify.Use
	timed     bool // its deadline is that of a rule
}

type ruledKey struct{}

// remember keeps in r what the gate asks for later, if there is anything.
func remember(r *http.Request, what *classify.Result) *http.Request {
	kept := ruled{what.Objective, what.Use, what.Deadline != 0}
	if kept == (ruled{}) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), ruledKey{}, &kept))
}

// nothing is what the rules say of most requests. It is not written to.
var nothing ruled

func ruledOf(r *http.Request) *ruled {
	if kept, ok := r.Context().Value(ruledKey{}).(*ruled); ok {
		return kept
	}
	return &nothing
}

// count counts a request more or less with each of the rules, and returns one that then has more than its AtOnce, -1 if none has.
func (s *state) count(rules *classify.Places, more int64) (full int) {
	full = -1
	for i := range s.cfg.Rules {
		if rules.Has(i) && s.inside[i].Add(more) > int64(s.cfg.Rules[i].Set.Use.AtOnce) {
			full = i
		}
	}
	return full
}

// crowded counts a request that is one too many of its rule, and unless the mode is
// monitor answers it and reports true.
func (p *Proxy) crowded(s *state, w http.ResponseWriter, r *http.Request, rule int) bool {
	p.crowds.Add(context.Background(), 1, metric.WithAttributes(attribute.String("rule", strconv.Itoa(rule+1))))
	if s.cfg.Mode != live.Enforce {
		return false
	}
	httpgate.Refuse(w, r, &live.Refusal{Reason: work.Share, Pushback: s.group(r).cfg.Objective}) // by then one of them should be done
	return true
}

// traced has what requests hold and need in an upstream recorded.
type traced struct {
	tracer *tracer.Tracer // with the lock of the proxy
	names  atomic.Pointer[map[string]tracer.Resource]
}

// trace learns the names that cfg has. The tracer is opened with the first of them.
func (u *upstream) trace(cfg *Config) {
	names := map[string]tracer.Resource{}
	for _, rule := range cfg.Rules {
		for _, name := range [...]string{rule.Set.Use.Holds, rule.Set.Use.Needs} {
			if name == "" || u.made.Culprit.Mode == culprit.Off {
				continue
			}
			if u.traced.tracer == nil {
				tr, err := tracer.Of(u.gate, tracer.Config{})
				if err != nil {
					u.p.log.Warn("cannot observe what requests hold and need", "upstream", u.name, "error", err)
					return
				}
				u.traced.tracer = tr
			}
			r, err := u.traced.tracer.Resource(name, tracer.Lock)
			if err != nil { // after several changes of the rules the names may be too many
				u.p.log.Warn("cannot observe what requests hold and need", "upstream", u.name, "resource", name, "error", err)
				continue
			}
			names[name] = r
		}
	}
	u.traced.names.Store(&names)
}

// begin records that the upstream works on r now, and returns what records the end.
func (t *traced) begin(r *http.Request) (end func()) {
	use := &ruledOf(r).use
	if use.Holds == "" && use.Needs == "" {
		return func() {}
	}
	names := t.names.Load()
	task := tracer.From(r.Context())
	if names == nil || task == nil {
		return func() {}
	}
	held, holds := (*names)[use.Holds]
	needed, needs := (*names)[use.Needs]
	if holds {
		task.SetShared(held, true)
		task.Acquire(held, 1)
	}
	if needs {
		task.WaitBegin(needed)
	}
	return func() {
		if holds {
			task.Release(held, 1)
		}
		if needs {
			task.WaitEnd(needed)
		}
	}
}

// close is called when the gate is closed.
func (t *traced) close() { _ = t.tracer.Close() }
