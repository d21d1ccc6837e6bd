package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// PathClasses is the table of classes, of the admin listener: text, or with
// ?format=json, or for who accepts application/json, JSON.
const PathClasses = "/.spillgate/classes"

// maxShown is the most kinds of requests in the table of classes, those that came
// last.
const maxShown = 256

// ClassStatus is one kind of requests and its class.
type ClassStatus struct {
	Caller string `json:"caller"`
	Callee string `json:"callee"`
	Method string `json:"method"`
	Class  string `json:"class"`
	// Why is the metric label of a share.Why, or rule, workflow or tag for what a
	// rule, the request's workflow or a trusted sender said of the last one.
	Why string `json:"why"`
	// Hops is the mean number of calls that requests make, Ratio the time without
	// queues of the whole request over that at this service.
	Hops  float64 `json:"hops"`
	Ratio float64 `json:"ratio"`
	// Isolated is the mean time from here on without queues, in seconds.
	Isolated float64 `json:"isolated_seconds"`
	// Seen is how many requests that rests on.
	Seen int `json:"seen"`
}

// ShareStatus is what the classes get at one upstream.
type ShareStatus struct {
	// Order is that of Share.
	Order string `json:"order"`
	// Weight is the interactive class's, Want where it goes, Neutral where no class
	// is favoured, Reason the one of the last decision. Only Weight is there without
	// one.
	Weight  float64 `json:"weight"`
	Want    float64 `json:"want,omitempty"`
	Neutral float64 `json:"neutral,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Admitted and GaveUp count requests by class.
	Admitted map[string]uint64 `json:"admitted,omitempty"`
	GaveUp   map[string]uint64 `json:"gave_up,omitempty"`
	// Away is how many requests hold no slot because they made calls; Kept counts
	// those that kept theirs because there were too many.
	Away int64 `json:"away"`
	Kept int64 `json:"kept"`
}

// EgressStatus is what went out at one address.
type EgressStatus struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Matched counts calls that belonged to a request, Strange those whose trace is
	// of none, Untraced those without one, Failed those without an answer.
	Matched  int64 `json:"matched"`
	Strange  int64 `json:"strange"`
	Untraced int64 `json:"untraced"`
	Failed   int64 `json:"failed"`
}

// Classes returns the kinds of requests that came last, with their classes;
// nothing without Config.Share.
func (p *Proxy) Classes() []ClassStatus {
	s := p.state.Load()
	if s.classes == nil {
		return nil
	}
	var out []ClassStatus
	for _, v := range s.classes.AppendVerdicts(nil, maxShown) {
		c := ClassStatus{
			Caller: v.Key.Caller, Callee: v.Key.Callee, Method: v.Key.Method, Class: v.Class.String(), Why: v.Why.String(),
			Hops: v.Hops, Ratio: v.Ratio, Isolated: v.Isolated.Seconds(), Seen: v.Seen,
		}
		if class, why := p.kinds.last(v.Key); why != "" {
			c.Class, c.Why = class.String(), why
		}
		out = append(out, c)
	}
	return out
}

// shareStatus returns what the classes get; nil without Config.Share.
func (u *upstream) shareStatus(c *Config) *ShareStatus {
	if c.Share.Order == NoClasses && len(c.Egress) == 0 {
		return nil
	}
	out := &ShareStatus{Order: c.Share.Order.String(), Weight: 0.5, Away: u.loose.Load(), Kept: u.tight.Load()}
	switch c.Share.Order {
	case FixedShare:
		out.Weight = c.Share.Weight
	case OnePriority:
		out.Weight = 1
	}
	if s := u.shares.Load(); s != nil {
		st := s.Stats()
		d := st.Decision
		out.Weight, out.Want, out.Neutral, out.Reason = d.Weight, d.Want, d.Neutral, d.Reason.String()
		out.Admitted, out.GaveUp = map[string]uint64{}, map[string]uint64{}
		for class := range work.NumClasses {
			out.Admitted[class.String()], out.GaveUp[class.String()] = st.Admitted[class], st.GaveUp[class]
		}
	}
	return out
}

func (p *Proxy) egressStatus() (out []EgressStatus) {
	for _, x := range p.exits {
		out = append(out, EgressStatus{
			Name: x.name, URL: redact(x.cfg.URL), Matched: x.matched.Load(), Strange: x.strange.Load(), Untraced: x.untraced.Load(), Failed: x.failed.Load(),
		})
	}
	return out
}

// serveClasses answers at PathClasses.
func (p *Proxy) serveClasses(w http.ResponseWriter, r *http.Request) {
	st := p.Status()
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		type weights struct {
			Upstream string `json:"upstream"`
			*ShareStatus
		}
		out := struct {
			Classes   []ClassStatus  `json:"classes"`
			Upstreams []weights      `json:"upstreams"`
			Egress    []EgressStatus `json:"egress"`
		}{Classes: st.Classes, Egress: st.Egress}
		for _, u := range st.Upstreams {
			out.Upstreams = append(out.Upstreams, weights{u.Name, u.Share})
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(out)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	if p.state.Load().classes == nil {
		fmt.Fprintln(t, "No classes are learned: share.order is off.")
	} else {
		fmt.Fprintln(t, "caller\tcallee\tmethod\tclass\twhy\thops\twhole/own\tisolated\tseen")
		for _, c := range st.Classes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%.1f ms\t%d\n",
				orDash(c.Caller), orDash(c.Callee), c.Method, c.Class, c.Why, c.Hops, c.Ratio, 1000*c.Isolated, c.Seen)
		}
	}
	fmt.Fprintln(t, "\nupstream\torder\tweight\twant\tneutral\treason\taway\tkept")
	for _, u := range st.Upstreams {
		if s := u.Share; s != nil {
			fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f\t%.3f\t%s\t%d\t%d\n", u.Name, s.Order, s.Weight, s.Want, s.Neutral, orDash(s.Reason), s.Away, s.Kept)
		}
	}
	if len(st.Egress) > 0 {
		fmt.Fprintln(t, "\negress\tto\tmatched\tstrange\tuntraced\tfailed")
		for _, e := range st.Egress {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\n", e.Name, e.URL, e.Matched, e.Strange, e.Untraced, e.Failed)
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// watchClasses makes the instruments for classes and egress.
func (p *Proxy) watchClasses() error {
	var errs []error
	meter := p.metrics.Meter()
	gauge := func(name, description string) metric.Float64ObservableGauge {
		i, err := meter.Float64ObservableGauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	count := func(name, description string) metric.Int64ObservableCounter {
		i, err := meter.Int64ObservableCounter(name, metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	weight := gauge("spillgate.share.weight", "Share of the slots that interactive requests get while both classes wait.")
	away := gauge("spillgate.away", "Requests that gave their slot back because they called another service.")
	kinds := gauge("spillgate.classes", "Kinds of requests (caller, callee, method), by class and by why they have it.")
	under := gauge("spillgate.traced", "Requests inside that the proxy can find by their trace.")
	decisions := count("spillgate.share.decisions", "Decisions about the share of interactive requests, by reason.")
	kept := count("spillgate.away_kept", "Requests that kept their slot while they called another service, because limits.away was reached.")
	calls := count("spillgate.egress.calls", "Calls that upstreams made, by whether the proxy could match them to a request.")
	failures := count("spillgate.egress.failures", "Calls that upstreams made and that were not answered.")
	bad := count("spillgate.traces_refused", "Requests that the proxy cannot find by their trace: it was malformed, or the table was full.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := p.state.Load()
		if s == nil || s.classes == nil && len(s.cfg.Egress) == 0 {
			return nil
		}
		for _, u := range s.upstreams {
			u.observeShare(s, o, weight, away, kept, decisions)
		}
		if s.classes != nil {
			type group struct{ class, why string }
			n := map[group]int{}
			for _, v := range s.classes.AppendVerdicts(nil, -1) {
				n[group{v.Class.String(), v.Why.String()}]++
			}
			for g, n := range n {
				o.ObserveFloat64(kinds, float64(n), metric.WithAttributes(attribute.String("class", g.class), attribute.String("why", g.why)))
			}
		}
		for _, x := range p.exits {
			name := attribute.String("egress", x.name)
			for what, n := range map[string]int64{"matched": x.matched.Load(), "strange": x.strange.Load(), "untraced": x.untraced.Load()} {
				o.ObserveInt64(calls, n, metric.WithAttributes(name, attribute.String("call", what)))
			}
			o.ObserveInt64(failures, x.failed.Load(), metric.WithAttributes(name))
		}
		o.ObserveFloat64(under, float64(p.traces.count()))
		o.ObserveInt64(bad, p.traces.malformed.Load(), metric.WithAttributes(attribute.String("why", "malformed")))
		o.ObserveInt64(bad, p.traces.crowded.Load(), metric.WithAttributes(attribute.String("why", "crowded")))
		return nil
	}, weight, away, kinds, under, decisions, kept, calls, failures, bad)
	return err
}

// observeShare reports what u's controller decides, and the requests without a slot.
func (u *upstream) observeShare(s *state, o metric.Observer, weight, away metric.Float64Observable, kept, decisions metric.Int64Observable) {
	gate := attribute.String("gate", u.name)
	own := metric.WithAttributes(gate)
	o.ObserveFloat64(away, float64(u.loose.Load()), own)
	o.ObserveInt64(kept, u.tight.Load(), own)
	if st := u.shareStatus(&s.cfg); st != nil && s.classes != nil {
		o.ObserveFloat64(weight, st.Weight, own)
	}
	for r := range u.decisions {
		if n := u.decisions[r].Load(); n > 0 {
			o.ObserveInt64(decisions, n, metric.WithAttributes(gate, attribute.String("reason", share.Reason(r).String())))
		}
	}
}
