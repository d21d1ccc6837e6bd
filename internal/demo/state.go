package demo

import (
	"slices"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/work"
)

// Scene is a part of the demo.
type Scene string

// The scenes, in their order. The last three are ends.
const (
	Starting    Scene = "starting"
	Searching   Scene = "capacity"
	Plain       Scene = "plain"
	Gated       Scene = "gated"
	Sharing     Scene = "tenants"
	Checkout    Scene = "checkout"
	Seizing     Scene = "culprit"
	Flooding    Scene = "broker"
	Reporting   Scene = "report"
	Done        Scene = "done"
	Interrupted Scene = "interrupted"
	Failed      Scene = "failed"
)

// Over reports whether the demo has ended.
func (s Scene) Over() bool { return s == Done || s == Interrupted || s == Failed }

// State is all that a view shows, and in the end the result. It is also the feed
// of the page and what --json prints. Times are seconds since the demo or the act
// began, rates are requests a second, names ending in ms are milliseconds.
type State struct {
	Scene Scene  `json:"scene"`
	Seed  uint64 `json:"seed"`
	Quick bool   `json:"quick"`
	// Number counts the published states.
	Number int `json:"number"`
	// Note says in a sentence what goes on.
	Note    string  `json:"note"`
	Elapsed float64 `json:"elapsed"`
	// Share is how much of the demo is over, about, 0 to 1.
	Share float64 `json:"share"`

	SLOMS     float64 `json:"slo_ms"`
	TimeoutMS float64 `json:"timeout_ms"`
	Conns     int     `json:"connections"`
	// ActLength is how long the steps of an act take.
	ActLength float64     `json:"act_length"`
	Steps     []StepState `json:"steps"`

	Capacity CapacityState `json:"capacity"`
	// Acts holds the plain act and then the gated one, as far as they began.
	Acts []Act `json:"acts"`
	// Tenants is the act of the tenants; nil before it begins.
	Tenants *TenantAct `json:"tenants,omitempty"`
	// Checkout is the act of the checkouts; nil before it begins.
	Checkout *CheckoutAct `json:"checkout,omitempty"`
	// Culprit is the act of the culprit; nil before it begins.
	Culprit *CulpritAct `json:"culprit,omitempty"`
	// Feed is the act of the broker; nil before it begins.
	Feed *FeedAct `json:"feed,omitempty"`
	// Report is the path of the report, once written.
	Report string `json:"report,omitempty"`
	Error  string `json:"error,omitempty"`
}

// StepState is one step of the load.
type StepState struct {
	Name   string  `json:"name"`
	Factor float64 `json:"factor"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
}

// CapacityState is the search for the capacity.
type CapacityState struct {
	// Rate is the capacity found, 0 before.
	Rate float64 `json:"rate"`
	// Nominal is the capacity of the store's workers, which no gate is told.
	Nominal float64     `json:"nominal"`
	Doubt   string      `json:"doubt,omitempty"`
	Tries   []stage.Try `json:"tries"`
}

// Act is one run of the load.
type Act struct {
	Name     string        `json:"name"` // "plain" or "gated"
	Running  bool          `json:"running"`
	Elapsed  float64       `json:"elapsed"`
	InFlight int           `json:"in_flight"`
	Points   []stage.Point `json:"points"`
	Totals   stage.Totals  `json:"totals"`
	// Sheds says how many requests were refused, where and why.
	Sheds    []Shed         `json:"sheds"`
	Services []stage.Report `json:"services"`
	// Outcome is the result, once the act is over.
	Outcome *stage.Outcome `json:"outcome,omitempty"`
}

// Shed counts the refusals that were made at one place for one reason.
type Shed struct {
	Where  string `json:"where"`
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// Places are where a request can be refused: in its caller's own wallet, or at
// the service of that name.
func Places() []string { return []string{"client", "entry", "middle", "store"} }

// Reasons are the names of all reasons for which a request can be refused, in the
// order in which it can meet them.
func Reasons() []string {
	var names []string
	for reason := work.None + 1; int(reason) < work.NumReasons; reason++ {
		names = append(names, reason.String())
	}
	return names
}

// Last returns the newest point, or a zero one.
func (a *Act) Last() stage.Point {
	if len(a.Points) == 0 {
		return stage.Point{}
	}
	return a.Points[len(a.Points)-1]
}

// Service returns the last report of a service.
func (a *Act) Service(name string) (stage.Report, bool) {
	for _, r := range a.Services {
		if r.Name == name {
			return r, true
		}
	}
	return stage.Report{}, false
}

// ShedAt returns how many requests were refused at a place.
func (a *Act) ShedAt(place string) uint64 {
	var n uint64
	for _, s := range a.Sheds {
		if s.Where == place {
			n += s.Count
		}
	}
	return n
}

// Step returns the index of the step that a time of an act falls into.
func (s *State) Step(elapsed float64) int { return stepAt(s.Steps, elapsed) }

// sheds lists the refusals of an act in the order of the places, the commonest
// reason first.
func sheds(unsent map[string]uint64, services []stage.Report) []Shed {
	at := func(place string) map[string]uint64 {
		if place == "client" {
			return unsent
		}
		for _, r := range services {
			if r.Name == place {
				return r.Shed
			}
		}
		return nil
	}
	var out []Shed
	for _, place := range Places() {
		var here []Shed
		// In the order of the reasons, so that equal counts do not change places.
		for _, name := range Reasons() {
			if n := at(place)[name]; n > 0 {
				here = append(here, Shed{place, name, n})
			}
		}
		slices.SortStableFunc(here, func(a, b Shed) int {
			switch {
			case a.Count > b.Count:
				return -1
			case a.Count < b.Count:
				return 1
			}
			return 0
		})
		out = append(out, here...)
	}
	return out
}
