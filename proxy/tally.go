package proxy

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/telemetry"
)

const (
	// maxTallies is the most workflows that are counted apart at one upstream,
	// beside those that are listed. All others are counted as otherName: trusted
	// senders may name any, and each makes a time series.
	maxTallies = 64
	otherName  = "(other)"
)

// tally counts what became of the requests of one workflow.
type tally struct {
	admitted atomic.Int64
	refused  [work.NumReasons]atomic.Int64 // by the gate
	would    [work.NumReasons]atomic.Int64 // ran, because the gate only monitors
	latency  *telemetry.Times              // nil: not recorded
}

// tallies are those of one upstream, by workflow.
type tallies struct {
	gate    string           // its name
	latency *telemetry.Timer // nil: not recorded

	known atomic.Pointer[map[string]*tally] // replaced, never changed
	mu    sync.Mutex                        // of replacing
	free  int                               // room for what nobody listed
}

func newTallies(gate string, latency *telemetry.Timer) *tallies {
	t := &tallies{gate: gate, latency: latency, free: maxTallies}
	t.known.Store(&map[string]*tally{"": t.fresh(""), otherName: t.fresh(otherName)})
	return t
}

func (t *tallies) fresh(workflow string) *tally {
	w := new(tally)
	if t.latency != nil {
		w.latency, _ = t.latency.With(t.gate, label(workflow)) // names are ASCII
	}
	return w
}

// list makes room for the workflows of a configuration.
func (t *tallies) list(workflows map[string]Workflow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := maps.Clone(*t.known.Load())
	for name := range workflows {
		if next[inside(name)] == nil {
			next[inside(name)] = t.fresh(name)
		}
	}
	t.known.Store(&next)
}

// of returns the tally of a workflow.
func (t *tallies) of(workflow string) *tally {
	if have := (*t.known.Load())[workflow]; have != nil {
		return have
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.known.Load()
	if have := known[workflow]; have != nil {
		return have
	}
	if t.free == 0 {
		return known[otherName]
	}
	t.free--
	next := maps.Clone(known)
	next[workflow] = t.fresh(workflow)
	t.known.Store(&next)
	return next[workflow]
}

// observe takes the end of one request's passage.
func (t *tallies) observe(e live.Event) {
	if int(e.Reason) >= work.NumReasons {
		return
	}
	w := t.of(e.Workflow)
	switch {
	case e.Reason == work.None:
		w.admitted.Add(1)
		if w.latency != nil {
			w.latency.Observe(e.Queued + e.Service)
		}
	case e.Enforced:
		w.refused[e.Reason].Add(1)
	default:
		w.would[e.Reason].Add(1)
	}
}

// label is the name of a workflow for operators.
func label(workflow string) string {
	if workflow == "" {
		return classify.DefaultName
	}
	return workflow
}

// watchWorkflows makes the instruments for the workflows of all upstreams.
func (p *Proxy) watchWorkflows() error {
	var err0 error
	p.latency, err0 = p.metrics.Timer("spillgate.workflow.latency", "Time that a request of a workflow waited for its slot and held it, of requests that ran.", "gate", "workflow")
	requests, err1 := p.metrics.Meter().Int64ObservableCounter("spillgate.workflow.requests",
		metric.WithDescription("Requests by workflow, the gate's decision and the reason of a refusal."))
	offered, err2 := p.metrics.Meter().Float64ObservableGauge("spillgate.workflow.offered",
		metric.WithDescription("Requests per second that arrive of a workflow, if rates are on."))
	rate, err3 := p.metrics.Meter().Float64ObservableGauge("spillgate.workflow.rate",
		metric.WithDescription("Rate limit of a workflow in requests per second: limit applies and is announced to callers, own is what the upstream's slots allow, downstream is what the services behind announced. Missing without a limit."))
	shaping, err4 := p.metrics.Meter().Int64ObservableGauge("spillgate.workflow.shaping",
		metric.WithDescription("Requests that wait for their workflow's rate."))
	if err := errors.Join(err0, err1, err2, err3, err4); err != nil {
		return err
	}
	return p.observeUpstreams(func(o metric.Observer, u *upstream) {
		gate := attribute.String("gate", u.name)
		known := *u.tallies.known.Load()
		for _, r := range u.gate.Rates(nil) {
			if known[r.Name] == nil {
				continue // counted as (other)
			}
			workflow := attribute.String("workflow", label(r.Name))
			own := metric.WithAttributes(gate, workflow)
			o.ObserveFloat64(offered, r.Offered, own)
			o.ObserveInt64(shaping, int64(r.Backlog), own)
			for bound, x := range map[string]float64{"limit": r.Rate, "own": r.Local, "downstream": r.Downstream} {
				if x < rates.NoLimit {
					o.ObserveFloat64(rate, x, metric.WithAttributes(gate, workflow, attribute.String("bound", bound)))
				}
			}
		}
		for name, t := range known {
			workflow := attribute.String("workflow", label(name))
			observe := func(n int64, decision string, r work.Reason) {
				if n > 0 {
					o.ObserveInt64(requests, n, metric.WithAttributes(gate, workflow, attribute.String("decision", decision), attribute.String("reason", r.String())))
				}
			}
			observe(t.admitted.Load(), "admit", work.None)
			for r := range t.refused {
				observe(t.refused[r].Load(), "refuse", work.Reason(r))
				observe(t.would[r].Load(), "would_refuse", work.Reason(r))
			}
		}
	}, requests, offered, rate, shaping)
}

// WorkflowStatus is one workflow at one upstream.
type WorkflowStatus struct {
	// Served and Refused count requests since the upstream joined, refusals by
	// reason. With the mode monitor WouldRefuse counts those that ran nevertheless.
	Served      int64            `json:"served"`
	Refused     map[string]int64 `json:"refused,omitempty"`
	WouldRefuse map[string]int64 `json:"would_refuse,omitempty"`
	// With rates, in requests/s. Offered is what comes. Rate is the limit, which is
	// announced to callers; Own is what the upstream's slots leave room for, and
	// Downstream what it and those that it calls announced, the tightest service of
	// which is Tight. They are 0 where there is no limit. Held says that a service
	// has fallen silent, so that the limit stays as it was.
	Offered    float64 `json:"offered,omitempty"`
	Rate       float64 `json:"rate,omitempty"`
	Own        float64 `json:"rate_own,omitempty"`
	Downstream float64 `json:"rate_downstream,omitempty"`
	Tight      string  `json:"tight_service,omitempty"`
	Held       bool    `json:"held,omitempty"`
	// Shaping counts requests that wait for the rate now. Those that were dropped
	// for it are Refused as rate.
	Shaping int `json:"shaping,omitempty"`
}

// workflows returns the state of those that had a request.
func (u *upstream) workflows() map[string]WorkflowStatus {
	out := map[string]WorkflowStatus{}
	for name, t := range *u.tallies.known.Load() {
		s := WorkflowStatus{Served: t.admitted.Load()}
		total := s.Served
		for r := range t.refused {
			reason := work.Reason(r).String()
			if n := t.refused[r].Load(); n > 0 {
				s.Refused = put(s.Refused, reason, n)
				total += n
			}
			if n := t.would[r].Load(); n > 0 {
				s.WouldRefuse = put(s.WouldRefuse, reason, n)
				total += n
			}
		}
		if total > 0 {
			out[label(name)] = s
		}
	}
	for _, r := range u.gate.Rates(nil) {
		s, ok := out[label(r.Name)]
		if !ok {
			continue
		}
		s.Rate, s.Own, s.Downstream = limit(r.Rate), limit(r.Local), limit(r.Downstream)
		s.Tight, s.Held, s.Shaping = r.Tight, r.Held, r.Backlog
		if finite(r.Offered) {
			s.Offered = r.Offered
		}
		out[label(r.Name)] = s
	}
	return out
}

// limit is a rate as the status shows it, 0 for none.
func limit(rate float64) float64 {
	if !(rate < rates.NoLimit) {
		return 0
	}
	return rate
}

func put(m map[string]int64, key string, n int64) map[string]int64 {
	if m == nil {
		m = map[string]int64{}
	}
	m[key] = n
	return m
}
