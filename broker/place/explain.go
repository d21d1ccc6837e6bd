package place

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/placement"
)

// Explained says why a topic is where it is.
type Explained struct {
	Topic  string `json:"topic"`
	Limits Limits `json:"limits"`
	// Objective is the one that counts, in seconds: see Topic.Wanted.
	Objective float64 `json:"objective_seconds"`
	Parts     []Part  `json:"parts"`
	// Nowhere is how many publishers have no place.
	Nowhere int `json:"nowhere,omitempty"`
	// Sending is what all publishers send, in messages a second; Groups how many groups fire together, and Largest how
	// many publishers the largest has.
	Sending float64 `json:"sending"`
	Groups  int     `json:"groups"`
	Largest int     `json:"largest_group"`
	// Options are what more and more nodes would mean.
	Options []Option `json:"options"`
	Reason  string   `json:"reason"`
}

// Option is a number of nodes.
type Option struct {
	Nodes int `json:"nodes"`
	// Without is what would find no room, in messages a second.
	Without float64 `json:"without_room,omitempty"`
	// P99 is the model's, at the worst node, in seconds; 0 where it would grow without end.
	P99   float64 `json:"predicted_p99_seconds,omitempty"`
	Meets bool    `json:"meets"`
}

// maxOptions bounds an explanation.
const maxOptions = 16

// Explain says why a topic is where it is.
func (s *State) Explain(topic string) (*Explained, error) {
	parts, nowhere, err := s.Parts(topic)
	if err != nil {
		return nil, err
	}
	t, l := s.Topics[topic], s.list(topic)
	e := &Explained{Topic: topic, Limits: t.Limits, Objective: t.Wanted(), Parts: parts, Nowhere: nowhere}
	sizes := map[uint32]int{}
	for _, p := range l.publishers {
		e.Sending += p.Rate
		if p.Group != 0 {
			sizes[p.Group]++
			e.Largest = max(e.Largest, sizes[p.Group])
		}
	}
	e.Groups = len(sizes)
	d := s.distribution(topic, l)
	if d == nil {
		e.Reason = fmt.Sprintf("it has no publishers yet: node %s has its bucket for what comes from elsewhere", s.Keeper(topic))
		if len(l.nodes) == 0 {
			e.Reason = "no node may hold anything: add one, or end the draining of one"
		}
		return e, nil
	}
	for k := 1; k <= min(len(l.nodes), maxOptions); k++ {
		e.Options = append(e.Options, option(d, k, e.Objective))
	}
	e.Reason = e.why()
	return e, nil
}

// option asks the model for the k nodes with the most room.
func option(d *placement.Distribution, k int, objective float64) Option {
	quotas, rest, p99 := d.Predicted(k)
	used := 0
	for _, q := range quotas {
		if q > 0 {
			used++
		}
	}
	o := Option{Nodes: k}
	if used > k { // the room of k is not enough
		o.Without = rest
		return o
	}
	o.Without, o.Meets = rest, rest == 0 && p99 <= objective
	if !math.IsInf(p99, 0) {
		o.P99 = p99
	}
	return o
}

// why compares what is with what could be.
func (e *Explained) why() string {
	k := len(e.Parts)
	var now, fewer *Option
	for i := range e.Options {
		switch o := &e.Options[i]; {
		case o.Nodes == k:
			now = o
		case o.Nodes < k && o.Meets && fewer == nil:
			fewer = o
		}
	}
	switch {
	case e.Nowhere > 0:
		return fmt.Sprintf("%d publishers have no place, the nodes are full: add one", e.Nowhere)
	case fewer != nil:
		return fmt.Sprintf("%d would do now, but nothing is moved without need", fewer.Nodes)
	case now != nil && now.Meets:
		return fmt.Sprintf("%d is the fewest whose predicted p99 meets the objective: each part of a split bucket delays more", k)
	default:
		return "no number of nodes meets the objective by the model; this is the one that misses it by least"
	}
}

// String says it in lines.
func (e *Explained) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: limit %.6g/s, burst %.6g, p99 within %v", e.Topic, e.Limits.Rate, e.Limits.Burst, seconds(e.Objective))
	if e.Objective < e.Limits.Objective {
		fmt.Fprintf(&b, ", as a publisher asks; %v otherwise", seconds(e.Limits.Objective))
	}
	b.WriteByte('\n')
	total := e.Nowhere
	for _, p := range e.Parts {
		total += p.Publishers
	}
	fmt.Fprintf(&b, "%s, %.6g/s together", several(total, "publisher"), e.Sending)
	if e.Groups > 0 {
		fmt.Fprintf(&b, ", in %s of up to %d that fire together", several(e.Groups, "group"), e.Largest)
	}
	fmt.Fprintf(&b, "\non %s: %s\n", several(len(e.Parts), "node"), e.Reason)
	for _, p := range e.Parts {
		fmt.Fprintf(&b, "  %s (%s): %s, %.6g/s, bucket %.6g/s and %.6g\n", p.Node, p.Address, several(p.Publishers, "publisher"), p.Sending, p.Rate, p.Burst)
	}
	for _, o := range e.Options {
		fmt.Fprintf(&b, "  with %d: ", o.Nodes)
		switch {
		case o.Without > 0 || o.P99 == 0 && !o.Meets && o.Nodes < len(e.Options):
			b.WriteString("no room\n")
		case o.P99 == 0:
			b.WriteString("the p99 grows without end\n")
		case o.Meets:
			fmt.Fprintf(&b, "predicted p99 %v, meets the objective\n", seconds(o.P99))
		default:
			fmt.Fprintf(&b, "predicted p99 %v, misses the objective\n", seconds(o.P99))
		}
	}
	return b.String()
}

// seconds rounds to three digits or so.
func seconds(s float64) time.Duration {
	d := time.Duration(s * 1e9)
	for unit := time.Second; unit > 1; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

// several returns a number of things.
func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
