package share

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

// What a node was granted lasts for long, so that it outlives a leader. A node that is dead would keep it as long. So a node obeys its
// grants only while it is backed: the node that leads, or enough of the witnesses, have heard a beat of it that is no older than its fence.
// Then it falls back to its floors, and has to be granted anew what it had. The leader knows for sure that a node has fallen back, though that is not
// heard, once neither the leader itself nor enough of the witnesses had heard it for the fence at one instant:
//
//	node ── beat: my clock ─────────────────────────▶ every node
//	node ◀─ beat: the last that I heard of you was … ─ every witness, and the leader
//	leader ◀─ beat: … of that node, so long ago ────── every witness
//
// Clocks are not compared. An acknowledgement counts from the beat that it names, on the clock of the node that sent it. What a witness says
// counts from the beat of the leader that it had heard when it said so, on the clock of the leader. Clocks are taken to run equally fast.

const (
	// beats is how many a node sends in a step.
	beats = 4
	// fenceSteps is for how many steps a beat backs a node: by default 3 s, of which a busy machine takes some and a dead node is missed for few.
	fenceSteps = 3
	// maxWitnesses bounds how many nodes are witnesses, so that beats of many nodes stay short: the first by their names.
	maxWitnesses = 7
	// maxHeard bounds what one beat tells of.
	maxHeard = 1 << 12
)

const beatSubject = "spillgate.bucket.beat"

// beat is what a node tells all others, several times in a step.
type beat struct {
	Node string `json:"node"`
	// Process is a number of the node's process, At what its clock says, and Fence how long after a beat it is backed by an answer to that, in nanoseconds.
	Process uint64        `json:"process"`
	At      mono.Time     `json:"at"`
	Fence   time.Duration `json:"fence"`
	// Leads is the term in which the node leads for sure, 0 if it does not.
	Leads uint64 `json:"leads,omitempty"`
	// Heard is what a node says that leads or is a witness.
	Heard []heardOf `json:"heard,omitempty"`
}

// heardOf is what a node has heard of another one.
type heardOf struct {
	Node string `json:"node"`
	// Process and At are those of the last beat. Process is 0 where there was none.
	Process uint64    `json:"process,omitempty"`
	At      mono.Time `json:"at,omitempty"`
	// Ago is how long ago it came, in nanoseconds; without a beat, how long ago the process began that hears none.
	Ago time.Duration `json:"ago"`
}

func decodeBeat(data []byte) (b beat, err error) {
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("share: a beat: %w", err)
	}
	if b.Node == "" || b.Fence <= 0 || len(b.Heard) > maxHeard {
		return b, fmt.Errorf("share: a beat of %q with a fence of %v and %d nodes, expected a name, a fence above 0 and at most %d", b.Node, b.Fence, len(b.Heard), maxHeard)
	}
	for _, h := range b.Heard {
		if h.Ago < 0 {
			return b, fmt.Errorf("share: a beat of %q heard of %q %v ago, expected 0 or more", b.Node, h.Node, h.Ago)
		}
	}
	return b, nil
}

// witness keeps by whom this node is backed, and what is known of who backs others. Its methods may be called from any goroutine.
type witness struct {
	node    string
	process uint64
	fence   time.Duration
	lead    time.Duration // how long a node leads that has said so, if it does not say so again

	mu    sync.Mutex
	began mono.Time
	term  uint64   // the latest that it has heard of
	nodes []string // of the state, in order
	peers map[string]*peer
	lease *engine.Lease // of this node's backing, which ends at until
	until mono.Time
	since mono.Time // when that began
}

// peer is another node, as this one hears it. All instants but at are on the clock of this node.
type peer struct {
	process uint64
	at      mono.Time // of its last beat, on its clock
	came    mono.Time
	fence   time.Duration
	acked   mono.Time            // the last beat of this node that it had heard when it sent its last one
	led     mono.Time            // the same of its last one as a leader
	heard   map[string]mono.Time // by node, when it had heard it last at the latest
}

func newWitness(now mono.Time, node string, process uint64, fence, lead time.Duration) *witness {
	return &witness{node: node, process: process, fence: fence, lead: lead, began: now, peers: map[string]*peer{}, lease: engine.NewLease(0)}
}

// follow takes the nodes of the state.
func (w *witness) follow(nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = nodes
}

// witnesses are the nodes that back others, and need is how many of them are enough. The lock is held, as below.
func (w *witness) witnesses() (all []string, need int) {
	all = w.nodes[:min(len(w.nodes), maxWitnesses)]
	return all, max(1, len(all)/2)
}

// say returns the next beat; leads is the term in which this node leads, 0 if it does not, and good until when it does for sure.
func (w *witness) say(now mono.Time, leads uint64, good mono.Time) beat {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := beat{Node: w.node, Process: w.process, At: now, Fence: w.fence, Leads: leads}
	if leads > 0 { // by itself, as by another leader: for the fence since it said that it leads, if that is longer
		w.back(now, good.Add(max(0, w.fence-w.lead)))
	}
	if all, _ := w.witnesses(); leads == 0 && !slices.Contains(all, w.node) {
		return b
	}
	for _, node := range w.nodes {
		if node == w.node {
			continue
		}
		h := heardOf{Node: node, Ago: now.Sub(w.began)}
		if p := w.peers[node]; p != nil {
			h.Process, h.At, h.Ago = p.process, p.at, now.Sub(p.came)
		}
		b.Heard = append(b.Heard, h)
	}
	return b
}

// hear takes a beat of any node.
func (w *witness) hear(now mono.Time, b beat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.Node == w.node {
		return
	}
	p := w.peers[b.Node]
	switch {
	case p == nil && len(w.peers) >= maxHeard:
		return
	case p == nil || p.process != b.Process:
		p = &peer{process: b.Process, heard: map[string]mono.Time{}}
		w.peers[b.Node] = p
	case b.At <= p.at:
		return
	}
	p.at, p.came, p.fence = b.At, now, b.Fence
	clear(p.heard)
	for _, h := range b.Heard {
		switch {
		case h.Node != w.node:
			p.heard[h.Node] = now.Add(-h.Ago)
		case h.Process == w.process && h.At <= now:
			p.acked = max(p.acked, h.At)
			if b.Leads > 0 && b.Leads >= w.term {
				w.term, p.led = b.Leads, max(p.led, h.At)
			}
		}
	}
	w.back(now, w.backing())
}

// backing returns until when this node is backed by others.
func (w *witness) backing() mono.Time {
	all, need := w.witnesses()
	var acked []mono.Time
	best := mono.Time(0)
	for node, p := range w.peers {
		best = max(best, p.led)
		if p.acked > 0 && slices.Contains(all, node) {
			acked = append(acked, p.acked)
		}
	}
	slices.SortFunc(acked, func(a, b mono.Time) int { return cmp.Compare(b, a) })
	if len(acked) >= need {
		best = max(best, acked[need-1])
	}
	if best == 0 {
		return 0
	}
	return best.Add(w.fence)
}

// back has this node backed until an instant. Where it was not until now, that begins anew, and nothing counts that it had before.
func (w *witness) back(now, until mono.Time) {
	if until <= now || until <= w.until && now < w.until {
		return
	}
	if _, over := w.lease.Over(now); over || !w.lease.Extend(until) {
		w.lease, w.since = engine.NewLease(until), now
	}
	w.until = until
}

// backed returns the lease of this node's backing and since when it is backed, and reports whether it is.
func (w *witness) backed(now mono.Time) (lease *engine.Lease, since mono.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, over := w.lease.Over(now)
	return w.lease, w.since, !over
}

// seen reports whether this process has ever heard a node.
func (w *witness) seen(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peers[node] != nil
}

// fallen reports whether a node has fallen back for sure by now, to one that leads since an instant; former is the node that led
// before, whose leading is over since then, while all others may have been backed by that one until then. told is when a process of the node
// reported last, 0 if none did: its report may be read before its beats are, and an earlier version, which sends none, obeys its grants all the same.
func (w *witness) fallen(now, since mono.Time, former, node string, told mono.Time, process uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.peers[node]
	if p == nil || node == w.node || told > p.came && process != p.process {
		return false
	}
	alone := max(p.came, told, w.began).Add(p.fence) // from when on this node does not back it
	if node == former {
		alone = max(alone, since.Add(max(0, p.fence-w.lead)))
	} else {
		alone = max(alone, since.Add(p.fence))
	}
	all, enough := w.witnesses()
	need, others := 1-enough, []*peer{}
	for _, name := range all {
		if name != node {
			need++
		}
		if name == w.node {
			need--
		} else if other := w.peers[name]; other != nil && name != node {
			others = append(others, other)
		}
	}
	if need <= 0 {
		return now >= alone
	}
	for _, at := range others { // the instant: when this node sent what that one had heard
		if at.acked < alone {
			continue
		}
		n := 0
		for _, o := range others {
			if last, told := o.heard[node]; told && o.acked >= at.acked && last.Add(p.fence) <= at.acked {
				n++
			}
		}
		if n >= need {
			return true
		}
	}
	return false
}
