package proxy

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/telemetry"
)

// The paths of the admin listener.
const (
	PathMetrics = telemetry.PathMetrics
	PathStatus  = telemetry.PathStatus
	PathLive    = telemetry.PathLive
	PathReady   = telemetry.PathReady
	// PathRefusals explains the newest refusals, or with the parameter refusal one of them.
	PathRefusals = telemetry.PathRefusals
)

// gates returns the gates of all upstreams by the names that they have in log and metrics.
func (p *Proxy) gates() map[string]*live.Gate {
	all := map[string]*live.Gate{}
	for _, u := range p.state.Load().upstreams {
		all[u.name] = u.gate
	}
	return all
}

// Admin serves metrics, status and health. It answers whoever asks, so it
// belongs on a private address.
func (p *Proxy) Admin() http.Handler {
	mux := p.metrics.Admin(func() any { return p.Status() }, func() (string, bool) {
		phase := p.phase.Load()
		if phase == serving && !p.ready() {
			return "too few upstreams are well", false
		}
		return phaseNames[phase], phase == serving
	}, PathClasses, PathRefusals)
	mux.HandleFunc("GET "+PathClasses, p.serveClasses)
	mux.Handle("GET "+PathRefusals, telemetry.Refusals(p.gates))
	return mux
}

// Status is the proxy at one instant, as the status page shows it. Durations are
// in seconds.
type Status struct {
	// Phase is starting, serving, leaving or draining.
	Phase     string           `json:"phase"`
	Mode      string           `json:"mode"`
	Objective float64          `json:"slo_seconds"`
	Uptime    float64          `json:"uptime_seconds"`
	Inside    int64            `json:"requests_inside"`
	Malformed int64            `json:"malformed_tags"`
	Upstreams []UpstreamStatus `json:"upstreams"`
	// Classes are the kinds of requests that came last, and Egress what upstreams
	// called; PathClasses shows both as text.
	Classes []ClassStatus  `json:"classes,omitempty"`
	Egress  []EgressStatus `json:"egress,omitempty"`
	// KeptOut are the kinds of requests that a guard has the proxy refuse.
	KeptOut []KeptOut `json:"kept_out,omitempty"`
}

// UpstreamStatus is one upstream and its gate.
type UpstreamStatus struct {
	Name string `json:"name"`
	// Group is the name of its group, empty for those of Config.Upstreams.
	Group string `json:"group,omitempty"`
	URL   string `json:"url"`
	// Reachable is false for a while after a connection failed.
	Reachable bool `json:"reachable"`
	// Out is true while the upstream is out of rotation because of its failures and gets probes
	// alone.
	Out bool `json:"out"`
	// Objective is that of its group.
	Objective float64 `json:"slo_seconds"`
	Limit     int     `json:"slots_limit"`
	Running   int     `json:"running"`
	Waiting   int     `json:"waiting"`
	Delay     float64 `json:"delay_seconds"`
	Service   float64 `json:"service_seconds"`
	Clients   int     `json:"clients"`
	Credits   int     `json:"credits"`
	Issued    int     `json:"credits_issued"`
	// Unreachable says that the upstream takes longer than the objective even where
	// nothing waits.
	Unreachable bool `json:"objective_unreachable"`
	// Served, Refused and WouldRefuse count requests since the upstream joined,
	// by outcome and by reason.
	Served      map[string]uint64 `json:"served"`
	Refused     map[string]uint64 `json:"refused"`
	WouldRefuse map[string]uint64 `json:"would_refuse"`
	// Shaping is the number of requests that wait for their workflow's rate.
	Shaping int `json:"shaping"`
	// Workflows are those that had a request.
	Workflows map[string]WorkflowStatus `json:"workflows"`
	// Share is what the classes get.
	Share *ShareStatus `json:"share,omitempty"`
}

// Status returns the state of the proxy.
func (p *Proxy) Status() Status {
	s := p.state.Load()
	now := live.Now()
	out := Status{
		Phase: phaseNames[p.phase.Load()], Mode: s.cfg.Mode.String(), Objective: s.cfg.Objective.Seconds(),
		Uptime: time.Since(p.started).Seconds(), Inside: p.active.Load(), Malformed: p.malformed.Load(),
	}
	for _, u := range s.upstreams {
		g := u.gate.Stats()
		st := UpstreamStatus{
			Name: u.name, Group: u.group, URL: redact(u.cfg.URL), Reachable: mono.Time(u.downUntil.Load()) <= now, Out: u.health.isOut.Load(), Objective: g.Objective.Seconds(),
			Limit: g.Limit, Running: g.Running, Waiting: g.Waiting, Delay: g.Delay.Seconds(), Service: g.Service.Seconds(),
			Clients: g.Clients, Credits: g.Credits, Issued: g.Issued, Unreachable: g.Unreachable,
			Served: map[string]uint64{}, Refused: map[string]uint64{}, WouldRefuse: map[string]uint64{},
			Shaping: g.Shaping, Workflows: u.workflows(), Share: u.shareStatus(&s.cfg),
		}
		for o, n := range g.Served {
			if n > 0 {
				st.Served[work.Outcome(o).String()] = n
			}
		}
		for r := range work.NumReasons {
			if n := g.Shed[r]; n > 0 {
				st.Refused[work.Reason(r).String()] = n
			}
			if n := g.Would[r]; n > 0 {
				st.WouldRefuse[work.Reason(r).String()] = n
			}
		}
		out.Upstreams = append(out.Upstreams, st)
	}
	out.Classes, out.Egress, out.KeptOut = p.Classes(), p.egressStatus(), p.advice.list()
	return out
}
