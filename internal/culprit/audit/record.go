package audit

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

// version is that of the format. A reader refuses others.
const version = 2

// line is one line of a log.
type line struct {
	V        int             `json:"v,omitzero"`
	Source   string          `json:"source"`
	Event    string          `json:"event,omitzero"`
	Config   json.RawMessage `json:"config,omitzero"`
	State    []byte          `json:"state,omitzero"`
	Sample   json.RawMessage `json:"sample,omitzero"`
	Decision json.RawMessage `json:"decision,omitzero"`
}

// number is written with six digits: what lies beyond is noise to a reader, and may
// differ between processors.
type number float64

// MarshalJSON writes the number, or null if it is none.
func (n number) MarshalJSON() ([]byte, error) {
	if x := float64(n); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return strconv.AppendFloat(nil, x, 'g', 6, 64), nil
	}
	return []byte("null"), nil
}

type decision struct {
	State      string      `json:"state"`
	Why        string      `json:"why,omitzero"`
	Evidence   evidence    `json:"evidence"`
	Blame      []blame     `json:"blame,omitzero"`
	Candidates []candidate `json:"candidates,omitzero"`
	Action     action      `json:"action,omitzero"`
	Outcome    outcome     `json:"outcome,omitzero"`
}

type evidence struct {
	InFlight   int    `json:"in_flight"`
	Late       int    `json:"late"`
	Stuck      int    `json:"stuck"`
	LateShare  number `json:"late_share"`
	Throughput number `json:"throughput"`
	Baseline   number `json:"baseline"`
	Noise      number `json:"noise"`
}

type blame struct {
	Resource string `json:"resource"`
	Lost     number `json:"lost"`
	Level    number `json:"level"`
	Explains number `json:"explains"`
}

type candidate struct {
	Task      uint64        `json:"task"`
	Kind      uint64        `json:"kind,omitzero"`
	Score     number        `json:"score"`
	Gain      number        `json:"gain"`
	Resource  string        `json:"resource"`
	Victims   number        `json:"victims"`
	Remaining time.Duration `json:"remaining"`
	Net       number        `json:"net"`
	Dominated bool          `json:"dominated,omitzero"`
	Dam       bool          `json:"dam,omitzero"`
	Why       string        `json:"why,omitzero"`
	Barred    string        `json:"barred,omitzero"`
}

type action struct {
	Task      uint64        `json:"task,omitzero"`
	Step      string        `json:"step,omitzero"`
	Would     bool          `json:"would,omitzero"`
	LimitKind uint64        `json:"limit_kind,omitzero"`
	LimitFor  time.Duration `json:"limit_for,omitzero"`
}

type outcome struct {
	Verdict string        `json:"verdict,omitzero"`
	Task    uint64        `json:"task,omitzero"`
	Step    string        `json:"step,omitzero"`
	After   time.Duration `json:"after,omitzero"`
}

// encode writes what was decided on s.
func encode(s *culprit.Sample, d *culprit.Decision) (json.RawMessage, error) {
	e := d.Evidence
	out := decision{State: d.State.String(), Why: d.Why.String(), Evidence: evidence{e.InFlight, e.Late, e.Stuck, number(e.LateShare),
		number(e.Throughput), number(e.Baseline), number(e.Noise)}}
	for r, b := range d.Blame {
		out.Blame = append(out.Blame, blame{s.Resources[r].Name, number(b.Lost), number(b.Level), number(b.Explains)})
	}
	for _, c := range d.Candidates {
		one := candidate{c.Task, c.Kind, number(c.Score), number(c.Gain), s.Resources[c.Resource].Name, number(c.Victims), c.Remaining.Round(time.Microsecond),
			number(c.Net), c.Dominated, c.Dam, c.Why.String(), ""}
		if c.Barred != culprit.NotBarred {
			one.Barred = c.Barred.String()
		}
		out.Candidates = append(out.Candidates, one)
	}
	if a := d.Action; a.Step != culprit.NoStep || a.Limit.Kind != 0 {
		out.Action = action{a.Task, a.Step.String(), a.Would, a.Limit.Kind, a.Limit.For}
	}
	if o := d.Outcome; o.Verdict != culprit.Pending {
		out.Outcome = outcome{o.Verdict.String(), o.Task, o.Step.String(), o.After}
	}
	return json.Marshal(out)
}
