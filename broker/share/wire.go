package share

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

// Subjects on NATS.
const (
	reportSubject = "spillgate.bucket.report"
	grantSubjects = "spillgate.bucket.grant."
	// absentSubjects are what grants are to be answered to, which nobody does but NATS in place of a node that is connected nowhere.
	absentSubjects = "spillgate.bucket.absent."
)

// report is what a node tells the leader, in every step.
type report struct {
	Node string `json:"node"`
	// Process is a number of the node's process, and At what its clock said: the grants say from then on how long they last.
	Process uint64    `json:"process,omitempty"`
	At      mono.Time `json:"at,omitempty"`
	// Term is the latest that the node has heard of.
	Term uint64 `json:"term"`
	// Leaving says that the node is about to end: others are to hold what it holds.
	Leaving bool     `json:"leaving,omitempty"`
	Topics  []obeyed `json:"topics"`
}

// obeyed is what a node does with a topic.
type obeyed struct {
	Topic string `json:"topic"`
	// Rate and Burst are what it obeys, Version is that of the grant, and Left how long
	// that lasts, in nanoseconds.
	Rate    float64       `json:"rate"`
	Burst   float64       `json:"burst"`
	Version uint64        `json:"version"`
	Left    time.Duration `json:"left"`
	// Fresh says that this is what a node begins with that has just got its first publishers: no grant has come yet.
	Fresh bool `json:"fresh,omitempty"`
	// Messages arrived within Span, which is the time since the last report, in nanoseconds; Backlog is the most that was
	// behind the bucket, Waiting what waits now. Access and Processing are p99s of the last window
	// of statistics, in seconds.
	Messages   float64       `json:"messages"`
	Span       time.Duration `json:"span"`
	Backlog    float64       `json:"backlog"`
	Waiting    float64       `json:"waiting"`
	Access     float64       `json:"access_p99"`
	Processing float64       `json:"processing_p99"`
}

// grants are what the leader tells a node, in every step.
type grants struct {
	Term uint64 `json:"term"`
	// Process and At are those of the last report that came from the node. A grant that is long on its way, or waits for a
	// process that is stopped, lasts no longer for that.
	Process uint64    `json:"process,omitempty"`
	At      mono.Time `json:"at,omitempty"`
	Grants  []grant   `json:"grants"`
}

type grant struct {
	Topic   string  `json:"topic"`
	Version uint64  `json:"version"`
	Rate    float64 `json:"rate"`
	Burst   float64 `json:"burst"`
	// Lasts is how long the grant lasts from At on, in nanoseconds, as long as the node is backed.
	Lasts time.Duration `json:"lasts"`
	// Floor is what the node falls back to.
	FloorRate  float64 `json:"floor_rate"`
	FloorBurst float64 `json:"floor_burst"`
}

const (
	// maxTopics bounds what one message tells of.
	maxTopics = 20_000
	// maxVersion is a version that no leader counts up to. One above it is none, and might have no next one.
	maxVersion = 1 << 63
)

func decodeReport(data []byte) (r report, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("share: a report: %w", err)
	}
	if r.Node == "" || len(r.Topics) > maxTopics {
		return r, fmt.Errorf("share: a report of %q about %d topics, expected a name and at most %d", r.Node, len(r.Topics), maxTopics)
	}
	for _, o := range r.Topics {
		if o.Version > maxVersion {
			return r, fmt.Errorf("share: a report of %q has version %d, expected at most %d", r.Node, o.Version, uint64(maxVersion))
		}
		for _, x := range [...]float64{o.Rate, o.Burst, o.Messages, o.Backlog, o.Waiting} {
			if !(x >= 0) || math.IsInf(x, 1) {
				return r, fmt.Errorf("share: a report of %q has %v, expected numbers from 0 on", r.Node, x)
			}
		}
	}
	return r, nil
}

func decodeGrants(data []byte) (g grants, err error) {
	if err := json.Unmarshal(data, &g); err != nil {
		return g, fmt.Errorf("share: grants: %w", err)
	}
	if len(g.Grants) > maxTopics {
		return g, fmt.Errorf("share: grants of %d topics, expected at most %d", len(g.Grants), maxTopics)
	}
	for _, o := range g.Grants {
		if o.Version > maxVersion {
			return g, fmt.Errorf("share: a grant of version %d, expected at most %d", o.Version, uint64(maxVersion))
		}
		for _, x := range [...]float64{o.Rate, o.Burst, o.FloorRate, o.FloorBurst} {
			if !(x >= 0) || math.IsInf(x, 1) {
				return g, fmt.Errorf("share: a grant of %v, expected numbers from 0 on", x)
			}
		}
	}
	return g, nil
}

func (o *obeyed) bucket() placement.Bucket { return placement.Bucket{Rate: o.Rate, Burst: o.Burst} }
