package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/proxy"
)

// mostShown is how many gates, or servers, of one source are kept; the others are
// left out.
const mostShown = 64

// topStatus enters a status document. It reports whether the document tells all: a
// guard's and a broker's does, a proxy's is to be completed by its metrics.
func (s *topSource) topStatus(text []byte) (all bool, err error) {
	if s.topBrokerStatus(text) {
		return true, nil
	}
	var doc struct {
		Guards []guard.Status `json:"guards"`
		proxy.Status
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return false, fmt.Errorf("the status is not the JSON of a guard or proxy: %w", err)
	}
	switch {
	case doc.Guards != nil:
		s.Kind, s.Apps = "guard", doc.Guards[:min(len(doc.Guards), mostShown)]
		return true, nil
	case doc.Phase == "":
		return false, errors.New("the status is another program's; expected the admin address of spillgate (a key guards or phase)")
	}
	s.Kind, s.Phase, s.KeptOut = "proxy", doc.Phase, doc.KeptOut[:min(len(doc.KeptOut), mostShown)]
	for _, u := range doc.Upstreams[:min(len(doc.Upstreams), mostShown)] {
		g := topGate{Name: u.Name}
		if !u.Reachable {
			g.Notes = append(g.Notes, "unreachable")
		}
		if u.Out {
			g.Notes = append(g.Notes, "out of rotation")
		}
		s.Gates = append(s.Gates, g)
	}
	return false, nil
}

// topMetrics enters what the metrics say of gates.
func (s *topSource) topMetrics(text []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("the metrics are not in Prometheus's text format: %w", err)
	}
	if s.Kind == "" {
		s.Kind = "service"
	}
	each := func(name string, f func(g *topGate, label func(string) string, value float64)) {
		for _, m := range families[name].GetMetric() {
			label := func(name string) string { return labelOf(m, name) }
			if g := s.gate(label("gate")); g != nil {
				f(g, label, valueOf(m))
			}
		}
	}
	number := func(name string, f func(g *topGate, v float64)) {
		each("spillgate_"+name, func(g *topGate, _ func(string) string, v float64) { f(g, v) })
	}
	number("slots_limit", func(g *topGate, v float64) { g.Limit = int(v) })
	number("slots_in_use", func(g *topGate, v float64) { g.Running = int(v) })
	number("waiting", func(g *topGate, v float64) { g.Waiting = int(v) })
	number("delay_seconds", func(g *topGate, v float64) { g.Delay = v })
	number("objective_seconds", func(g *topGate, v float64) { g.Objective = v })
	number("mode", func(g *topGate, v float64) { g.Mode = map[float64]string{0: "enforce", 1: "monitor", 2: "off"}[v] })
	number("objective_unreachable", func(g *topGate, v float64) {
		if v > 0 {
			g.Notes = append(g.Notes, "slower than its objective even where nothing waits")
		}
	})
	each("spillgate_requests_total", func(g *topGate, label func(string) string, v float64) { g.Total.count(label, v) })
	each("spillgate_culprit_state", func(g *topGate, label func(string) string, v float64) {
		if v > 0 {
			g.Culprit = label("state")
		}
	})
	each("spillgate_culprit_cancels_total", func(g *topGate, label func(string) string, v float64) {
		if label("action") == "cancel" {
			g.Cancelled = v
		} else {
			g.WouldCancel = v
		}
	})
	each("spillgate_culprit_outcomes_total", func(g *topGate, label func(string) string, v float64) {
		if v > 0 {
			add(&g.Verdicts, label("verdict"), v)
		}
	})
	if len(s.Gates) == 0 {
		return errors.New("its metrics have no gate; expected spillgate_slots_limit and others, as telemetry writes them")
	}
	slices.SortFunc(s.Gates, func(a, b topGate) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// count enters one counter of spillgate_requests_total.
func (f *topFlow) count(label func(string) string, v float64) {
	f.Load += v
	switch label("decision") {
	case "refuse":
		add(&f.Sheds, label("reason"), v)
		return
	case "would_refuse":
		add(&f.Would, label("reason"), v)
	}
	if label("outcome") == "done" {
		f.Good += v
	}
}

func add(to *map[string]float64, key string, v float64) {
	if *to == nil {
		*to = map[string]float64{}
	}
	(*to)[key] += v
}

// gate returns the gate of that name, a new one if there is none, or nil beyond
// mostShown.
func (s *topSource) gate(name string) *topGate {
	for i := range s.Gates {
		if s.Gates[i].Name == name {
			return &s.Gates[i]
		}
	}
	if name == "" || len(s.Gates) >= mostShown {
		return nil
	}
	s.Gates = append(s.Gates, topGate{Name: name})
	return &s.Gates[len(s.Gates)-1]
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// valueOf returns a value that JSON can express; what it cannot counts as 0.
func valueOf(m *dto.Metric) float64 {
	v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
