package backplane

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/follow"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// maxUnder is how many messages are sent to the log and not known to be stored.
	// Further ones wait.
	maxUnder = 2048
	// ackTime is how long the log may take to say that it has a message, before it is
	// asked again: a log without a leader does not answer.
	ackTime = 2 * time.Second
)

// Errors that messages are refused with.
var (
	// ErrFull: the log has no room, or none for a message of this size.
	ErrFull = fmt.Errorf("backplane: the log is full")
	// ErrNotStored: no majority of the nodes has stored the message in time.
	ErrNotStored = fmt.Errorf("backplane: no majority of the nodes stores")
)

// Append takes a message to be stored; see engine.Log.
func (p *Plane) Append(m *engine.Message, id uint16) bool {
	if p.ctx.Err() != nil {
		return false
	}
	if m.Retain {
		p.retained.store(m.Topic.Name())
	}
	if p.appends.push(m, id, p.name(m)) {
		return true
	}
	if m.Retain {
		p.retained.stored(m.Topic.Name(), 0, nil) // which is no last one
	}
	return false
}

// under is a message that the log was sent.
type under struct {
	entry
	data     []byte
	since    mono.Time
	stored   jetstream.PubAckFuture
	err      error                  // where it could not be sent
	retained jetstream.PubAckFuture // nil if it is not
	position uint64                 // among the retained ones
}

// appending starts what Append feeds: one goroutine sends to the log, another waits
// for what it says, in the same order.
func (p *Plane) appending() {
	sent := make(chan under, maxUnder)
	p.done.Go(func() {
		defer close(sent)
		var all []entry
		known := uint64(0)
		for {
			select {
			case <-p.ctx.Done():
				return
			case <-p.appends.more:
			}
			all = p.appends.take(all)
			known = p.interestKnown(known)
			for _, e := range all {
				sent <- p.send(e)
			}
		}
	})
	p.done.Go(func() {
		b := p.hub.NewBatch()
		for u := range sent {
			b.Begin(live.Now())
			for more := true; more; {
				p.settle(b, &u)
				select {
				case u, more = <-sent:
				default:
					more = false
				}
			}
			b.End()
		}
	})
}

// send sends a message to the log.
func (p *Plane) send(e entry) under {
	u := under{entry: e, since: live.Now()}
	u.data = e.packet(u.since)
	if e.kept.Retain {
		u.retained, u.err = p.js.PublishMsgAsync(u.retainedMsg())
	}
	if u.err == nil {
		u.stored, u.err = p.js.PublishMsgAsync(u.msg())
	}
	return u
}

// msg is the message as the log has it.
func (u *under) msg() *nats.Msg {
	m := nats.NewMsg(subjectOf(logSubjects, u.kept.Topic.Name()))
	m.Data = u.data
	return u.numbered(m)
}

// retainedMsg is the message as the stream of retained messages has it.
func (u *under) retainedMsg() *nats.Msg {
	return u.numbered(retainedMsg(&u.kept.Message, u.data))
}

// numbered gives a message the number by which a stream takes it once, however often it is sent.
func (u *under) numbered(m *nats.Msg) *nats.Msg {
	m.Header.Set(jetstream.MsgIDHeader, strconv.FormatUint(u.origin, 36)+"."+strconv.FormatUint(u.count, 36))
	return m
}

// settle waits until a message is stored, or cannot be, and tells its Source.
func (p *Plane) settle(b *engine.Batch, u *under) {
	err := u.err
	if err == nil {
		_, err = p.await(u.stored)
	}
	if err == nil && u.retained != nil {
		if u.position, err = p.await(u.retained); full(err) {
			err = nil // it is stored, and not retained
		}
	}
	for pause := 50 * time.Millisecond; err != nil && !p.hopeless(err) && live.Now().Sub(u.since) < p.cfg.Patience && p.ctx.Err() == nil; pause = min(2*pause, time.Second) {
		b.End() // what was settled before need not wait for this
		p.sleep(pause)
		b.Begin(live.Now())
		err = p.again(u)
		if p.alone && live.Now().Sub(u.since) >= stuckTime && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)) {
			p.stuck.Store(true)
		}
	}
	m := &u.kept.Message
	if m.Retain {
		if err != nil {
			u.position = 0
		}
		p.retained.stored(m.Topic.Name(), u.position, func() { p.hub.Retain(m) })
	}
	if err == nil {
		p.feed.appended.Store(true)
		p.share(m.Topic, u.data)
	}
	if err == nil && m.From != nil {
		m.From.Released(b, m, u.id)
	} else if from, ok := m.From.(engine.Refusable); ok && p.ctx.Err() == nil {
		reason := ErrNotStored
		if p.hopeless(err) {
			reason = ErrFull
		}
		p.log.Debug("a message is not stored", "topic", m.Topic.Name(), "error", err)
		from.Refused(b, m, u.id, reason)
	}
	u.kept.Release()
}

// again sends a message to the log once more, and waits.
func (p *Plane) again(u *under) error {
	ctx, cancel := context.WithTimeout(p.ctx, ackTime)
	defer cancel()
	if u.kept.Retain {
		switch ack, err := p.js.PublishMsg(ctx, u.retainedMsg()); {
		case err == nil:
			u.position = ack.Sequence
		case !full(err):
			return err
		}
	}
	_, err := p.js.PublishMsg(ctx, u.msg())
	return err
}

// await waits for the answer of a stream, for twice ackTime: the library gives up earlier. It returns the position of the message.
func (p *Plane) await(f jetstream.PubAckFuture) (position uint64, err error) {
	select {
	case ack := <-f.Ok():
		return ack.Sequence, nil
	case err := <-f.Err():
		return 0, err
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	case <-time.After(2 * ackTime):
		return 0, jetstream.ErrAsyncPublishTimeout
	}
}

func (p *Plane) sleep(d time.Duration) {
	select {
	case <-p.ctx.Done():
	case <-time.After(d):
	}
}

// deliver delivers what the feed has to the subscribers of this node.
func (p *Plane) deliver(b *engine.Batch, all []follow.Message) {
	b.Begin(live.Now())
	defer b.End()
	for i := range all {
		p.offered.Store(all[i].Position)
		if msg, err := p.logged(&all[i], b.Now()); err == nil {
			b.Deliver(&msg)
		}
		p.position.Store(all[i].Position)
	}
}

// errMark is of what is no message.
var errMark = errors.New("backplane: a mark")

// logged returns a message of the log as one for the hub.
func (p *Plane) logged(m *follow.Message, now mono.Time) (msg engine.Message, err error) {
	if m.Subject() == markSubject {
		return msg, errMark
	}
	msg, err = p.aged(m.Data(), m.Stored, now)
	msg.Position = m.Position
	return msg, err
}

// aged returns a message that NATS has stored at an instant.
func (p *Plane) aged(data []byte, stored time.Time, now mono.Time) (msg engine.Message, err error) {
	pk, err := decode(data)
	if err != nil {
		p.malformed(err)
		return msg, err
	}
	if msg, err = pk.message(p.hub, now); err == nil && msg.Expires != mono.Never {
		msg.Expires = msg.Expires.Add(-max(time.Since(stored), 0))
	}
	return msg, err
}

// wholeRead is up to how many messages Read reads all of, and not only those of some topics, for which a mark is appended.
const wholeRead = 512

// Read calls each for the messages of the log after a position that filters cover, and perhaps for others, in order, until it
// returns false or the log has none more. It returns the position that it has come to.
func (p *Plane) Read(ctx context.Context, after uint64, filters []string, each func(*engine.Message) bool) (uint64, error) {
	try, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	info, err := p.stream.Info(try)
	if err != nil {
		return after, fmt.Errorf("backplane: the log: %w", err)
	}
	if info.State.LastSeq <= after || info.State.Msgs == 0 {
		return max(after, info.State.LastSeq), nil
	}
	s := p.streamOf(logStream)
	if info.State.LastSeq-max(after, info.State.FirstSeq) > wholeRead {
		// Up to the mark there is nothing else, in whatever copy of the log the messages are read from. A log that is full takes none.
		if _, err := p.js.PublishMsg(try, nats.NewMsg(markSubject)); err == nil {
			s = s.On(subjectsFor(filters))
		}
	}
	if after, err = s.Read(ctx, after, func(m *follow.Message) bool {
		msg, err := p.logged(m, live.Now())
		return err != nil || each(&msg)
	}); err != nil {
		return after, fmt.Errorf("backplane: the log: %w", err)
	}
	return after, nil
}

// Has reports whether the log has a message by its number, as what a topic got after a position. So does the log itself, for as
// long as it tells numbers that it has from new ones (OnceFor), and without being asked. Where it has not, or after an error,
// searched is the position up to which that is known.
func (p *Plane) Has(ctx context.Context, topic string, after, origin, count uint64) (found bool, searched uint64, err error) {
	s := p.streamOf(logStream)
	s.Filter = subjectOf(logSubjects, topic)
	if searched, err = s.Read(ctx, after, func(m *follow.Message) bool {
		pk, err := decode(m.Data())
		found = err == nil && pk.number == number{origin, count}
		return !found
	}); err != nil {
		return false, searched, fmt.Errorf("backplane: the log: %w", err)
	}
	return found, searched, nil
}

// OnceFor is how long at least the log takes a message of a number once.
func (p *Plane) OnceFor() time.Duration { return p.cfg.onceFor() }

// At returns the message at a position of the log. It reports false if the log has it no more.
func (p *Plane) At(ctx context.Context, position uint64) (m engine.Message, found bool, err error) {
	var raw *jetstream.RawStreamMsg
	err = p.ask(ctx, func(ctx context.Context) (err error) {
		raw, err = p.stream.GetMsg(ctx, position)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("backplane: the log: %w", err)
	}
	if m, err = p.aged(raw.Data, raw.Time, live.Now()); err != nil {
		return m, false, nil // p.bad counts it
	}
	m.Position = position
	return m, true, nil
}
