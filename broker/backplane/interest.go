package backplane

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// Filters that clients of this node subscribe to are subscriptions of NATS. Members of a
// shared subscription are a queue group of it, so that of all nodes with members one is
// sent the message, the publisher's own node before others:
//
//	a/#            nc   spillgate.live.n.a.>
//	$share/g/a/#   jc   spillgate.live.n.a.>, spillgate.share.n.a.>   queue g a/#
//
// Both have a mark beside them, see wants.go.
//
// Messages of QoS 0 come by the first subject. What is stored reaches every node by the
// log, and shared subscriptions by the second subject, once the log has it, unless they draw it from there (Group).

// queueOf is the queue group of a shared subscription.
func queueOf(of engine.Interest) string {
	queue := keyOf(of.Group) + "." + keyOf(of.Filter)
	if of.Draws {
		queue += ".draws"
	}
	return queue
}

// interest is what this node subscribes to.
type interest struct {
	mu      sync.Mutex
	changed map[engine.Interest]bool // wanted or not, to be applied
	more    chan struct{}
	queues  map[string]engine.Interest // by queue group
	// open is set while something may have changed that is not applied yet.
	open atomic.Bool
	// applied counts the changes that were told to NATS.
	applied atomic.Uint64

	applying sync.Mutex // held by who applies; guards what follows
	subs     map[engine.Interest][]*nats.Subscription
	dropped  uint64 // messages that subs which have ended had no room for
}

// lost returns how many messages of other nodes found no room here.
func (i *interest) lost() uint64 {
	i.applying.Lock()
	defer i.applying.Unlock()
	n := i.dropped
	for _, subs := range i.subs {
		n += droppedBy(subs)
	}
	return n
}

// droppedBy returns how many messages subscriptions of NATS had no room for.
func droppedBy(subs []*nats.Subscription) (n uint64) {
	for _, sub := range subs {
		if dropped, err := sub.Dropped(); err == nil {
			n += uint64(dropped)
		}
	}
	return n
}

func (i *interest) set(w engine.Interest, wanted bool) {
	i.mu.Lock()
	i.changed[w] = wanted
	i.open.Store(true)
	i.mu.Unlock()
	select {
	case i.more <- struct{}{}:
	default:
	}
}

// take returns what has changed, and notes the queue groups that are used from now on.
func (i *interest) take() map[engine.Interest]bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	changed := i.changed
	i.changed = map[engine.Interest]bool{}
	for w, wanted := range changed {
		if wanted && w.Group != "" {
			i.queues[queueOf(w)] = w
		}
	}
	return changed
}

// of returns the shared subscription of a queue group.
func (i *interest) of(queue string) engine.Interest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.queues[queue]
}

// forget ends the use of a queue group.
func (i *interest) forget(w engine.Interest) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.changed[w] { // no subscriber has come meanwhile
		delete(i.queues, queueOf(w))
	}
}

// subscribe applies what Wanted and Unwanted say.
func (p *Plane) subscribe() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.interest.more:
			p.interested()
		}
	}
}

// interested applies what Wanted and Unwanted have said until now. Whoever sends messages on calls it first: a client that
// subscribes to an answer and then asks gets that, because NATS knows of the subscription at each node before that node has the question.
func (p *Plane) interested() {
	i := &p.interest
	if !i.open.Load() {
		return
	}
	i.applying.Lock()
	defer i.applying.Unlock()
	for w, wanted := range i.take() {
		have := i.subs[w]
		switch {
		case wanted && have == nil:
			i.subs[w] = p.listen(w)
		case !wanted:
			i.dropped += droppedBy(have)
			for _, sub := range have {
				_ = sub.Unsubscribe()
			}
			delete(i.subs, w)
			i.forget(w)
		}
	}
	i.applied.Add(1) // before open says that all is applied
	i.mu.Lock()
	i.open.Store(len(i.changed) > 0)
	i.mu.Unlock()
}

// interestKnown is interested for whoever sends by another connection than that of the interest: it waits until NATS has taken what was
// applied since known, and returns what known is then. Nodes that the log reaches by a third one may hear of it later.
func (p *Plane) interestKnown(known uint64) uint64 {
	p.interested()
	applied := p.interest.applied.Load()
	if applied == known {
		return known
	}
	ctx, cancel := context.WithTimeout(p.ctx, ackTime)
	defer cancel()
	if p.nc.FlushWithContext(ctx) != nil {
		return known
	}
	return applied
}

// listen subscribes to what covers a filter.
func (p *Plane) listen(w engine.Interest) (subs []*nats.Subscription) {
	add := func(sub *nats.Subscription, err error) {
		if err == nil {
			subs = append(subs, sub)
		}
	}
	mark := func(nc *nats.Conn) { // by the same connection and before, so that whoever sees what follows sees this
		for _, subject := range p.marksOf(w.Filter) {
			add(nc.ChanSubscribe(subject, p.heard)) // where nothing is sent
		}
	}
	if w.Group == "" {
		mark(p.nc)
		for _, subject := range subjectsOf(liveSubjects, w.Filter) {
			add(p.nc.ChanSubscribe(subject, p.heard))
		}
		return subs
	}
	mark(p.jc)
	trees := []string{liveSubjects, shareSubjects}
	if w.Draws {
		trees = trees[:1]
	}
	for _, tree := range trees {
		for _, subject := range subjectsOf(tree, w.Filter) {
			add(p.jc.ChanQueueSubscribe(subject, queueOf(w), p.heardShared))
		}
	}
	return subs
}

// share sends a message that is stored to one member of each shared subscription.
func (p *Plane) share(topic *engine.Topic, data []byte) {
	subject := ""
	if !p.alone {
		subject = subjectOf(shareSubjects, topic.Name())
	}
	if p.alone || p.account != nil && !p.account.SubscriptionInterest(subject) && !p.hub.Grouped(topic) {
		return
	}
	_ = p.nc.Publish(subject, data)
}

// hearShared delivers what comes for members of shared subscriptions.
func (p *Plane) hearShared() {
	b := p.hub.NewBatch()
	for {
		var m *nats.Msg
		select {
		case <-p.ctx.Done():
			return
		case m = <-p.heardShared:
		}
		b.Begin(live.Now())
		for more := true; more; {
			if pk, err := decode(m.Data); err != nil {
				p.malformed(err)
			} else if msg, err := pk.message(p.hub, b.Now()); err == nil {
				if !b.DeliverTo(&msg, p.interest.of(m.Sub.Queue)) {
					p.lost.Add(1) // the last member has just left
				}
			}
			select {
			case m = <-p.heardShared:
			default:
				more = false
			}
		}
		b.End()
	}
}
