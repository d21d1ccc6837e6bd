package backplane

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// A message for a topic whose bucket is elsewhere goes to a node that has a part of it:
//
//	here   spillgate.publish.NODE, reply to spillgate.reply.HERE.NUMBER ─▶ there: lane, log
//	here ◀─ reply: one byte, what became of it (QoS 1 and 2) ──────────────┘
//
// A message that is not answered is sent again after retryTime, to whichever node has a
// part then, this one included, under the same number: the log takes it once.

// What became of a message, as the reply says.
const (
	replyStored = iota + 1
	replyFull
	replyNotStored
	replyRefused // by the topic's limit
)

const (
	// retryTime is after how long a message that was not answered is sent again. A node
	// that has it already says so to itself and answers once.
	retryTime = 5 * time.Second
	// heardReplies is how many answers of other nodes wait to be handled.
	heardReplies = 8192
)

// ErrRefused is told to the Source of a message that the topic's node refused: too much
// waits there for the topic's rate.
var ErrRefused = errors.New("backplane: as many messages of the topic wait as may")

// diverted is what was sent to other nodes.
type diverted struct {
	mu      sync.Mutex
	holders map[string][]string // by topic
	under   map[number]*away    // messages of QoS 1 and 2
	out     *queue
	replies chan *nats.Msg
	asked   chan *nats.Msg
	moved   chan struct{}      // has one element when holders, or who is down, have changed
	down    []string           // nodes that are not heard
	here    map[number]*remote // messages of other nodes that are under way here
}

// away is a message that another node has been sent.
type away struct {
	entry
	sent   mono.Time
	to     string // the node
	nobody bool   // which is connected nowhere
}

// SetHolders says which nodes have parts of a topic's bucket; none forgets it.
func (p *Plane) SetHolders(topic string, nodes []string) {
	p.diverted.mu.Lock()
	defer p.diverted.mu.Unlock()
	if slices.Equal(p.diverted.holders[topic], nodes) {
		return
	}
	p.diverted.stir()
	if len(nodes) == 0 {
		delete(p.diverted.holders, topic)
		return
	}
	if p.diverted.holders == nil {
		p.diverted.holders = map[string][]string{}
	}
	p.diverted.holders[topic] = nodes
}

// SetDown says which nodes are not heard, in order: what they were sent goes to others that have its topic.
func (p *Plane) SetDown(nodes []string) {
	p.diverted.mu.Lock()
	defer p.diverted.mu.Unlock()
	if slices.Equal(p.diverted.down, nodes) {
		return
	}
	p.diverted.stir()
	p.diverted.down = nodes
}

// stir has it looked at soon what may go to another node now. All that is under way is, so only changes do.
func (d *diverted) stir() {
	select {
	case d.moved <- struct{}{}:
	default:
	}
}

// holder returns where this node sends messages of a topic, empty if nowhere. A node
// sends all of them to the same one, which keeps them in order.
func (p *Plane) holder(topic string) string {
	p.diverted.mu.Lock()
	defer p.diverted.mu.Unlock()
	return p.holds(topic)
}

// holds is holder. The lock is held.
func (p *Plane) holds(topic string) string {
	nodes := p.diverted.holders[topic]
	if len(nodes) == 0 {
		return ""
	}
	return nodes[p.origin%uint64(len(nodes))]
}

// Elsewhere reports whether messages of a topic go to another node.
func (p *Plane) Elsewhere(topic string) bool { return p.holder(topic) != "" }

// Divert takes a message for another node; see engine.Diverter.
func (p *Plane) Divert(_ *engine.Batch, m *engine.Message, id uint16) bool {
	if p.holder(m.Topic.Name()) == "" {
		return false
	}
	switch m.From.(type) {
	case *remote, *question: // it was diverted to here: once is enough
		return false
	}
	n := p.name(m)
	p.diverted.mu.Lock()
	room := len(p.diverted.under) < p.cfg.Pending
	p.diverted.mu.Unlock()
	return room && p.diverted.out.push(m, id, n)
}

// serveDiverted starts what Divert feeds, and what serves other nodes.
func (p *Plane) serveDiverted() error {
	d := &p.diverted
	d.out, d.under, d.here = newQueue(p.cfg), map[number]*away{}, map[number]*remote{}
	d.moved = make(chan struct{}, 1)
	d.replies, d.asked = make(chan *nats.Msg, heardReplies), make(chan *nats.Msg, heardMessages)
	for subject, to := range map[string]chan *nats.Msg{publishSubjects + token(p.cfg.Node): d.asked, p.replySubject() + "*": d.replies} {
		if _, err := p.nc.ChanSubscribe(subject, to); err != nil {
			return fmt.Errorf("backplane: %w", err)
		}
	}
	p.done.Go(p.divert)
	p.done.Go(p.publishDiverted)
	return nil
}

// divert sends what Divert took, and handles the answers.
func (p *Plane) divert() {
	d := &p.diverted
	b := p.hub.NewBatch()
	again := time.NewTicker(retryTime / 5)
	defer again.Stop()
	var all []entry
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-d.out.more:
			all = d.out.take(all)
			p.interested()
			b.Begin(live.Now())
			for _, e := range all {
				p.sendAway(b, &away{entry: e})
			}
			b.End()
		case m := <-d.replies:
			b.Begin(live.Now())
			p.answered(b, m)
			b.End()
		case <-again.C:
			p.sendAgain(b)
		case <-d.moved:
			p.sendAgain(b)
		}
	}
}

func (p *Plane) sendAgain(b *engine.Batch) {
	b.Begin(live.Now())
	for _, a := range p.overdue(b.Now()) {
		p.sendAway(b, a)
	}
	b.End()
}

// sendAway sends a message to the node that has its topic, or publishes it here if no other one has.
func (p *Plane) sendAway(b *engine.Batch, a *away) {
	m := &a.kept.Message
	holder := p.holder(m.Topic.Name())
	if holder == "" {
		p.home(b, a)
		return
	}
	a.sent, a.to, a.nobody = live.Now(), holder, false
	msg := &nats.Msg{Subject: publishSubjects + token(holder), Data: a.packet(a.sent)}
	if m.QoS == 0 {
		msg.Reply = p.asking(m.From)
	} else {
		msg.Reply = p.replySubject() + strconv.FormatUint(a.origin, 36) + "-" + strconv.FormatUint(a.count, 36)
		p.diverted.mu.Lock()
		p.diverted.under[a.number] = a
		p.diverted.mu.Unlock()
	}
	if err := p.nc.PublishMsg(msg); err != nil && m.QoS == 0 {
		p.lost.Add(1)
	}
	if m.QoS == 0 {
		a.kept.Release()
	}
}

// home publishes a message here that no other node is to have any more, under its number: one that had it may have
// stored it.
func (p *Plane) home(b *engine.Batch, a *away) {
	p.diverted.mu.Lock()
	delete(p.diverted.under, a.number)
	p.diverted.mu.Unlock()
	defer a.kept.Release()
	was := &a.kept.Message
	v := engine.QueueFull
	if t, err := p.hub.Topic([]byte(was.Topic.Name())); err == nil { // which may have been forgotten meanwhile
		m := &engine.Message{Topic: t, Payload: was.Payload, Properties: was.Properties, Expires: was.Expires, QoS: was.QoS, Retain: was.Retain, From: was.From, Sender: was.Sender}
		if m.QoS > 0 { // as publish says
			m.Origin, m.Number = a.origin, a.count
		}
		v = b.Publish(m, a.id)
	}
	from, may := was.From.(engine.Refusable)
	switch {
	case v == engine.Waits:
	case was.QoS == 0:
		if v != engine.Went {
			p.lost.Add(1)
		}
	case v == engine.Went && was.From != nil:
		was.From.Released(b, was, a.id)
	case v != engine.Went && may:
		from.Refused(b, was, a.id, ErrRefused)
	}
}

// overdue returns what was not answered for a while, or is at a node that is dead or not heard while another one has the topic, in the order in
// which it was published.
func (p *Plane) overdue(now mono.Time) (all []*away) {
	p.diverted.mu.Lock()
	defer p.diverted.mu.Unlock()
	for _, a := range p.diverted.under {
		if now.Sub(a.sent) >= retryTime || (a.nobody || slices.Contains(p.diverted.down, a.to)) && p.holds(a.kept.Topic.Name()) != a.to {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *away) int { return cmp.Compare(a.count, b.count) })
	return all
}

// answered tells the Source of a message what another node made of it.
func (p *Plane) answered(b *engine.Batch, msg *nats.Msg) {
	origin, count, _ := strings.Cut(strings.TrimPrefix(msg.Subject, p.replySubject()), "-")
	var n number
	var err, err2 error
	n.origin, err = strconv.ParseUint(origin, 36, 64)
	n.count, err2 = strconv.ParseUint(count, 36, 64)
	if err != nil || err2 != nil || len(msg.Data) > 1 {
		return
	}
	d := &p.diverted
	d.mu.Lock()
	a := d.under[n]
	if a != nil && len(msg.Data) == 0 { // no node of that name is up; another one may have the topic soon
		a.nobody = true
		a = nil
	} else {
		delete(d.under, n)
	}
	d.mu.Unlock()
	if a == nil {
		return
	}
	m := &a.kept.Message
	if msg.Data[0] == replyStored {
		if m.From != nil {
			m.From.Released(b, m, a.id)
		}
	} else if from, ok := m.From.(engine.Refusable); ok {
		from.Refused(b, m, a.id, reasonOf(msg.Data[0]))
	}
	a.kept.Release()
}

// reasonOf is why a message was refused, by the answer.
func reasonOf(answer byte) error {
	switch answer {
	case replyFull:
		return ErrFull
	case replyNotStored:
		return ErrNotStored
	}
	return ErrRefused
}

// replySubject is where this node hears what became of messages, before their numbers.
func (p *Plane) replySubject() string { return replySubjects + strconv.FormatUint(p.origin, 36) + "." }

// remote is the Source of a message that another node diverted to this one.
type remote struct {
	p      *Plane
	number number
	reply  string
}

// Released answers that the message is stored.
func (r *remote) Released(*engine.Batch, *engine.Message, uint16) { r.answer(replyStored) }

// Refused answers why it is not.
func (r *remote) Refused(_ *engine.Batch, _ *engine.Message, _ uint16, err error) {
	switch {
	case errors.Is(err, ErrFull):
		r.answer(replyFull)
	case errors.Is(err, ErrNotStored):
		r.answer(replyNotStored)
	default:
		r.answer(replyRefused)
	}
}

func (r *remote) answer(what byte) {
	d := &r.p.diverted
	d.mu.Lock()
	delete(d.here, r.number)
	d.mu.Unlock()
	if r.reply != "" {
		_ = r.p.nc.Publish(r.reply, []byte{what}) // without an answer it is asked again
	}
}

// publishDiverted publishes what other nodes diverted to this one.
func (p *Plane) publishDiverted() {
	b := p.hub.NewBatch()
	for {
		var m *nats.Msg
		select {
		case <-p.ctx.Done():
			return
		case m = <-p.diverted.asked:
		}
		b.Begin(live.Now())
		for more := true; more; {
			p.publish(b, m)
			select {
			case m = <-p.diverted.asked:
			default:
				more = false
			}
		}
		b.End()
	}
}

func (p *Plane) publish(b *engine.Batch, asked *nats.Msg) {
	pk, err := decode(asked.Data)
	if err != nil {
		p.malformed(err)
		return
	}
	r := &remote{p: p, number: pk.number, reply: asked.Reply}
	m, err := pk.message(p.hub, b.Now())
	if err == nil {
		m.Topic, err = p.hub.Topic(pk.topic) // its limit counts
	}
	if err != nil {
		if pk.qos > 0 {
			r.answer(replyRefused)
		}
		return
	}
	m.From = r // which Divert knows: two nodes that each think the other has the topic do not send it to and fro
	if m.QoS == 0 {
		m.Origin, m.Number = 0, 0 // it goes on as one of this node, when it has its token: by its number it would be late then, and taken for one that came
		if asked.Reply != "" && !p.hub.Wanted(m.Topic) {
			m.From = &question{*r}
		}
		r.reply = "" // only question answers
	} else {
		p.diverted.mu.Lock()
		_, again := p.diverted.here[pk.number]
		p.diverted.here[pk.number] = r
		p.diverted.mu.Unlock()
		if again {
			return // it waits for its rate, or to be stored, and is answered then
		}
	}
	switch v := b.Publish(&m, 0); {
	case v == engine.Waits:
	case v == engine.Went:
		r.answer(replyStored)
	case m.QoS > 0 && p.Elsewhere(m.Topic.Name()): // the nodes do not agree yet; it comes again
		p.diverted.mu.Lock()
		delete(p.diverted.here, pk.number)
		p.diverted.mu.Unlock()
	case m.QoS == 0:
		p.lost.Add(1)
	default:
		r.answer(replyRefused)
	}
}
