package backplane

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
)

// A message of QoS 0 is sent on only where another node wants it, since the way through NATS takes more of a processor than all else that is
// done for it. The server in this process tells at once whether anybody subscribes to a subject, but not whether that is this node itself, as it
// most often is. So each node also marks what it wants under its own name, where nothing is sent, and the others ask for that:
//
//	n2   a/#   spillgate.wants.n2.n.a.>, spillgate.live.n.a.>
//	n1   a/b ─▶ does anybody subscribe to spillgate.wants.n2.n.a.b, or to spillgate.wants.n3.n.a.b? ─▶ spillgate.live.n.a.b
//
// So this node knows as much of what others want as NATS, which would send it to nobody else. The others are those that are joined to the
// server, or have told of themselves lately. While one of them has not marked that it marks what it wants, as no older version does, all is sent.

const (
	// meetEvery is how often it is looked which other nodes there are: one that starts has no clients for longer.
	meetEvery = 250 * time.Millisecond
	// mostAsked is for how many nodes it is asked. With more, all is sent.
	mostAsked = 16
)

// others is what the marks of the other nodes begin with.
type others []string

// wantedElsewhere reports whether a message is to be sent on: another node may want it, or a shared subscription that has members here, whose turn
// NATS decides.
func (p *Plane) wantedElsewhere(t *engine.Topic) bool {
	all := p.others.Load()
	if all == nil || p.hub.Grouped(t) {
		return true
	}
	for _, marks := range *all {
		if p.account.SubscriptionInterest(subjectOf(marks, t.Name())) {
			return true
		}
	}
	return false
}

// marksOf returns the subjects by which this node marks that it wants what a filter covers.
func (p *Plane) marksOf(filter string) []string {
	if p.alone {
		return nil
	}
	return subjectsOf(wantsSubjects+token(p.cfg.Node)+".", filter)
}

// markWants marks that this node marks what it wants.
func (p *Plane) markWants() error {
	if p.alone {
		return nil
	}
	if _, err := p.nc.Subscribe(wantsSubjects+token(p.cfg.Node), func(*nats.Msg) {}); err != nil {
		return fmt.Errorf("backplane: %w", err)
	}
	return nil
}

// meet keeps which other nodes there are.
func (p *Plane) meet() {
	for met := map[string]bool{}; p.ctx.Err() == nil; p.sleep(meetEvery) {
		p.others.Store(p.met(met))
	}
}

// met returns the other nodes that there are or have been, nil where one may not mark what it wants.
func (p *Plane) met(before map[string]bool) *others {
	routes, err := p.server.Routez(nil)
	if err != nil {
		return nil
	}
	now := map[string]bool{}
	for _, r := range routes.Routes {
		now[token(r.RemoteName)] = true
	}
	p.told.mu.Lock()
	for node, n := range p.told.all {
		// One that marks is there, whatever the clocks say.
		if time.Since(n.at) < deadAfter || p.account.SubscriptionInterest(wantsSubjects+node) {
			now[node] = true
		}
	}
	p.told.mu.Unlock()
	delete(now, token(p.cfg.Node))
	for node := range now {
		if !p.account.SubscriptionInterest(wantsSubjects + node) {
			return nil
		}
		before[node] = true
	}
	if len(before) > mostAsked {
		return nil
	}
	all := others{}
	for node := range before {
		all = append(all, wantsSubjects+node+".")
	}
	return &all
}
