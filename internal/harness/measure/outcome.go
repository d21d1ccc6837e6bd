package measure

import (
	"math"
	"time"
)

// A Kind says how a request ended.
type Kind uint8

// The ways a request can end. Each request ends in exactly one.
const (
	Served     Kind = iota // answered, in time or not
	Refused                // turned away on purpose, by the server or by the client's own library
	Failed                 // ended by an error that was no refusal
	TimedOut               // given up because its own deadline passed
	Unfinished             // still running when the run ended, and cut off
	kinds
)

// Outcome is what became of one request.
type Outcome struct {
	Kind Kind
	// Reason says why a Refused or Failed request ended so; it is counted.
	// Reasons should come from a small fixed set: see MaxReasons.
	Reason string
}

// MaxReasons is the number of different reasons one Recorder tells apart;
// later ones are counted together under "other".
const MaxReasons = 64

// Counts counts requests. Offered is what the schedule called for; it equals
// NotSent, plus the requests that have ended in each way, plus those in flight.
type Counts struct {
	Offered    uint64 `json:"offered"`
	NotSent    uint64 `json:"not_sent"`   // planned, but the generator was at its own limit
	Sent       uint64 `json:"sent"`       // handed to the code under test
	Served     uint64 `json:"served"`     // answered
	Good       uint64 `json:"good"`       // answered within the SLO
	Refused    uint64 `json:"refused"`    // turned away
	Failed     uint64 `json:"failed"`     // errors other than refusals
	TimedOut   uint64 `json:"timed_out"`  // own deadline passed
	Unfinished uint64 `json:"unfinished"` // cut off at the end of the run
	// OnTime counts as Good does, but at the instant a request was meant to
	// leave instead of the instant it was answered. OnTime/Offered of a span
	// is the share of that span's demand that was met.
	OnTime uint64 `json:"on_time"`
}

func (c *Counts) add(d *Counts) {
	c.Offered += d.Offered
	c.NotSent += d.NotSent
	c.Sent += d.Sent
	c.Served += d.Served
	c.Good += d.Good
	c.Refused += d.Refused
	c.Failed += d.Failed
	c.TimedOut += d.TimedOut
	c.Unfinished += d.Unfinished
	c.OnTime += d.OnTime
}

// Dist describes a distribution of durations.
type Dist struct {
	Count uint64        `json:"count"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Span describes the requests of one stretch of a run.
type Span struct {
	// From and To bound the stretch, counted from the start of the run and
	// rounded to whole windows.
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`

	Counts
	RefusedBy map[string]uint64 `json:"refused_by,omitempty"`
	FailedBy  map[string]uint64 `json:"failed_by,omitempty"`

	// Rates are per second of the stretch.
	OfferedRate float64 `json:"offered_rate"`
	ServedRate  float64 `json:"served_rate"`
	Goodput     float64 `json:"goodput"`
	RefusedRate float64 `json:"refused_rate"`
	// Attainment is OnTime/Offered, 1 when nothing was offered.
	Attainment float64 `json:"attainment"`

	// Latency is that of served requests, Refusal the time until a refused
	// client knew; both from the instant the request was meant to leave.
	Latency Dist `json:"latency"`
	Refusal Dist `json:"refusal"`
	// Oldest is the greatest age that any request, finished or not, was seen
	// to have. It stands beside the p99 of Latency because requests that never
	// come back have no latency.
	Oldest time.Duration `json:"oldest_ns"`
}

// finish fills the fields that follow from the counts.
func (s *Span) finish() {
	s.Attainment = 1
	if s.Offered > 0 {
		s.Attainment = float64(s.OnTime) / float64(s.Offered)
	}
	seconds := (s.To - s.From).Seconds()
	if seconds <= 0 || math.IsNaN(seconds) {
		return
	}
	s.OfferedRate = float64(s.Offered) / seconds
	s.ServedRate = float64(s.Served) / seconds
	s.Goodput = float64(s.Good) / seconds
	s.RefusedRate = float64(s.Refused) / seconds
}

// Live is a look at a run under way.
type Live struct {
	Elapsed  time.Duration `json:"elapsed_ns"`
	InFlight int           `json:"in_flight"`
	// Oldest is the age of the oldest request in flight, 0 when there is none.
	Oldest time.Duration `json:"oldest_ns"`
	// Second covers the last second of whole windows, or what there is of it.
	Second Span `json:"second"`
	// Total covers the run so far; its distributions are empty.
	Total Span `json:"total"`
}

// Result describes a finished run.
type Result struct {
	SLO    time.Duration `json:"slo_ns"`
	Window time.Duration `json:"window_ns"`
	// Valid says whether the run may be used; Invalid says why not: the machine, as its
	// records show, or whoever made the run spoilt it. What the run measured never does.
	Valid   bool     `json:"valid"`
	Invalid []string `json:"invalid,omitempty"`
	// Remarks say what a reader of the figures must know of a run that counts.
	Remarks []string `json:"remarks,omitempty"`

	// Total covers the whole run, with distributions exact to three digits.
	Total Span `json:"total"`
	// SendLag is how late requests left.
	SendLag Dist `json:"send_lag"`
	// Windows is the run's time series; its distributions are within 3 %.
	Windows []Span `json:"windows"`
}

// Remark adds to what a reader must know. The run counts as before.
func (r *Result) Remark(text string) { r.Remarks = append(r.Remarks, text) }

// Reject marks the run as one that does not count, for the given reason.
func (r *Result) Reject(reason string) {
	r.Valid = false
	r.Invalid = append(r.Invalid, reason)
}
