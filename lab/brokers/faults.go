package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	brokerplace "github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	faultRate  = 400.0 // of the topic's bucket, messages/s
	faultBurst = 40.0
	faultPubs  = 6
	// faultUnder is how many messages each publisher has under way: all together offer more than the rate.
	faultUnder = 16
	// lookEvery is how often the released messages are read, and lookOver the shortest time, in
	// seconds, over which they are set against the rate: what is read is some looks old.
	lookEvery = 100 * time.Millisecond
	lookOver  = 5.0
	// flowing is how many messages must be acknowledged after a fault for the topic to count as working, and
	// flowTime how long that may take.
	flowing  = 200
	flowTime = 60 * time.Second
	// restTime bounds how long what was acknowledged may take to come when nothing is published any more.
	restTime = 60 * time.Second
)

// fault is something that happens to one node.
type fault struct {
	name string
	do   func(ctx context.Context, n *node) error
}

// faults are what srtm/faults does to nodes in turn, beginning with one that holds the
// topic.
func faults(lasts time.Duration) []fault {
	signals := func(from, to syscall.Signal) func(context.Context, *node) error {
		return func(ctx context.Context, n *node) error {
			if err := syscall.Kill(n.child.Pid(), from); err != nil {
				return err
			}
			err := pause(ctx, lasts)
			return errors.Join(err, syscall.Kill(n.child.Pid(), to))
		}
	}
	return []fault{
		{"kill -9, started again", func(ctx context.Context, n *node) error {
			n.kill()
			if err := pause(ctx, lasts); err != nil {
				return err
			}
			return n.start(ctx)
		}},
		{"stopped, and goes on", signals(syscall.SIGSTOP, syscall.SIGCONT)},
		{"its connections to other nodes closed, again and again", signals(isolate, rejoin)},
	}
}

func runFaults(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rounds, lasts := 3, 20*time.Second
	if o.Quick {
		rounds, lasts = 1, 3*time.Second
	}
	c, err := startCluster(ctx, plan{nodes: 3, capacity: roomForAll})
	if err != nil {
		return nil, err
	}
	defer c.stop()
	if _, err := c.placer.Update(ctx, func(s *brokerplace.State) error {
		return s.SetTopic(placedTopic, brokerplace.Limits{Rate: faultRate, Burst: faultBurst, Objective: 1, Each: faultRate / faultPubs})
	}); err != nil {
		return nil, err
	}
	p := newPress(c)
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	defer p.stop()
	t := &table.Table{Title: "Faults, one after the other", Columns: []table.Column{{Name: "round"}, {Name: "node"}, {Name: "fault"}, {Name: "acknowledged before"},
		{Name: "longest without an acknowledgement", Unit: "s", Format: "%.1f"}, {Name: "released in 5 s, by the rate", Format: "%.3f"}}}
	most := 0.0
	for n := range rounds {
		for i, f := range faults(lasts) {
			o.Step(3*n+i, 3*rounds, f.name)
			which, err := c.holder(ctx, n+i)
			if err != nil {
				return nil, err
			}
			if i == 0 { // it is killed
				if err := p.bequeath(ctx, which); err != nil {
					return nil, err
				}
			}
			before := p.begin()
			if err := f.do(ctx, which); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if err := p.flows(ctx); err != nil {
				return nil, fmt.Errorf("after %q: %w", f.name, err)
			}
			gap, over := p.end()
			most = max(most, over)
			t.Add(n+1, which.spec.Name, f.name, before, gap.Seconds(), over)
		}
	}
	acknowledged, lost, unworked, twice, err := p.settle(ctx)
	if err != nil {
		return nil, err
	}
	unheard, again, missed := p.executed(ctx)
	r := &experiment.Result{Quick: o.Quick, Table: []*table.Table{t}}
	r.Notes = append(r.Notes, fmt.Sprintf("%d messages were acknowledged; %d came more than once, as QoS 1 allows", acknowledged, twice))
	if len(unheard)+len(again) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("wills that never came: %s; that came more than once: %s", strings.Join(unheard, "; "), strings.Join(again, "; ")))
	}
	if len(missed) > 0 {
		r.Notes = append(r.Notes, "wills of QoS 0 that did not come, and that nobody owes to a client that is cut off: "+strings.Join(missed, "; "))
	}
	r.Ceiling("acknowledged messages that were lost", "", 0, 0, float64(lost))
	r.Ceiling("acknowledged messages that no member got", "", 0, 0, float64(unworked))
	r.Ceiling("wills of clients of killed nodes that never came", "", 0, 0, float64(len(unheard)))
	r.Ceiling("wills that came more than once", "", 0, 0, float64(len(again)))
	r.Ceiling("most released in 5 s or more, by rate and burst", "", 1, 0.1, most)
	return r, nil
}

// holder returns a node that holds the topic in every other call, by number, and one that does not in
// the others, if there are both.
func (c *cluster) holder(ctx context.Context, number int) (*node, error) {
	s, _, err := c.placer.Load(ctx)
	if err != nil {
		return nil, err
	}
	parts, _, err := s.Parts(placedTopic)
	if err != nil {
		return nil, err
	}
	holds := map[string]bool{}
	for _, p := range parts {
		holds[p.Node] = true
	}
	for _, n := range c.nodes {
		if holds[n.spec.Name] == (number%2 == 0) {
			return n, nil
		}
	}
	return c.nodes[number%len(c.nodes)], nil
}

// released follows how many messages the nodes let through, whatever becomes of their
// counters.
type released struct {
	mu    sync.Mutex
	nodes map[string][]look
}

// look is what a node has let through since the first look at it, read at some instant between two.
type look struct {
	asked, told time.Time
	n           float64
	counter     uint64
}

// watch reads what nodes tell until ctx ends.
func (r *released) watch(ctx context.Context, c *cluster) {
	var watching sync.WaitGroup
	for _, n := range c.nodes {
		watching.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				if s, err := n.status(ctx); err == nil {
					r.enter(n.spec.Name, limitOf(s, placedTopic).Released, asked, time.Now())
				}
				_ = pause(ctx, lookEvery)
			}
		})
	}
	watching.Wait()
}

// enter notes what a node has let through since it started, or since it got its part of
// the bucket.
func (r *released) enter(node string, n uint64, asked, told time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[string][]look{}
	}
	l := look{asked: asked, told: told, counter: n}
	if all := r.nodes[node]; len(all) > 0 {
		last := all[len(all)-1]
		since := n - last.counter
		if n < last.counter {
			since = n
		}
		l.n = last.n + float64(since)
	}
	r.nodes[node] = append(r.nodes[node], l)
}

// most returns the largest part of its rate, less its burst, that the topic had in any lookOver seconds
// or more since an instant: what the nodes have let through within that time for sure. A node that is stopped tells afterwards what it
// let through before.
func (r *released) most(since time.Time) (most float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var times []time.Time
	for _, all := range r.nodes {
		for _, l := range all {
			if !l.asked.Before(since) {
				times = append(times, l.asked, l.told)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, func(a, b time.Time) bool { return b.Sub(a).Abs() < lookEvery/2 })
	for i, from := range times {
		for _, to := range times[i:] {
			if t := to.Sub(from).Seconds(); t >= lookOver {
				most = max(most, (r.within(from, to)-faultBurst)/(faultRate*t))
			}
		}
	}
	return most
}

// within returns how many messages the nodes have let through between two instants for sure.
func (r *released) within(from, to time.Time) (n float64) {
	for _, all := range r.nodes {
		first, _ := slices.BinarySearchFunc(all, from, func(l look, t time.Time) int { return l.asked.Compare(t) })
		last, at := slices.BinarySearchFunc(all, to, func(l look, t time.Time) int { return l.told.Compare(t) })
		if !at {
			last--
		}
		if first < last {
			n += all[last].n - all[first].n
		}
	}
	return n
}
