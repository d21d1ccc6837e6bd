package backplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// A shared subscription that draws from the log (engine.Subscription.Draws) is a consumer of it, which outlives processes:
//
//	log ─▶ consumer of $share/g/a/# ─▶ node 1: Feed ─▶ member ─▶ Drawn.Done
//	                              └──▶ node 2: Feed ─▶ member, gone ─▶ Drawn.Back ─▶ drawn again, at any node
//
// So a message waits in the log while no member takes it, and comes to another one if its member's node dies. The consumer is ended when
// neither a stored session (Session.Groups) nor a connected client is a member any more.

const (
	// drawnTime is how long a message may be drawn until it is drawn by another node, unless Hold says that it is in good hands.
	drawnTime = 15 * time.Second
	// HoldEvery is how often Hold must say that.
	HoldEvery = drawnTime / 4
	// MaxDraw is the most messages that Feed draws at a time.
	MaxDraw = 256
	// drawPause is until the next attempt where draw failed.
	drawPause = 100 * time.Millisecond
	// idleTime is how long a shared subscription lives without members: one may just have come, and its node not have told so yet.
	idleTime = 30 * time.Second
	// maxGroups is how many shared subscriptions the cluster has, about. Each takes memory of three nodes. Further ones are refused.
	maxGroups = 2000
	// drawTime is how long draw waits for messages, and drawSilence until it is said that there are none, twice over,
	// before a consumer is given up.
	drawTime, drawSilence = 4 * time.Second, time.Second
	// maxDrawn is how many messages of a shared subscription are drawn at once. Further ones wait in the log.
	maxDrawn = 20_000

	groupConsumer = "SHARED_" // begins the names of these consumers
)

// ErrGroups is of a shared subscription beyond as many as there may be.
var ErrGroups = fmt.Errorf("backplane: there are %d shared subscriptions, as many as may be", maxGroups)

// groups is what this node knows of shared subscriptions.
type groups struct {
	mu   sync.Mutex
	here map[string]int       // that have members at this node, and how often they were opened
	n    int                  // of the cluster, as counted last, with those made here since then
	left map[string]time.Time // those that have no members any more, as last told, and since when that is known

	sends sends
}

// Group is a shared subscription of the cluster that draws from the log.
type Group struct {
	p    *Plane
	name string // as clients know it
	cfg  jetstream.ConsumerConfig
}

// GroupOf names a shared subscription, as Session.Groups does.
func GroupOf(group, filter string) string {
	hash := sha256.Sum256([]byte(group + "/" + filter)) // a group has no slash
	return groupConsumer + fmt.Sprintf("%x", hash[:16])
}

// OpenGroup makes a shared subscription, which has what the log takes from now on, unless there is one. This node has members of it
// until Close.
func (p *Plane) OpenGroup(ctx context.Context, group, filter string) (*Group, error) {
	g := &Group{p: p, name: "$share/" + group + "/" + filter}
	g.cfg = jetstream.ConsumerConfig{Durable: GroupOf(group, filter), FilterSubjects: subjectsOf(logSubjects, filter),
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: drawnTime, MaxDeliver: -1, MaxAckPending: maxDrawn}
	p.groups.mu.Lock()
	p.groups.here[g.cfg.Durable]++
	first := p.groups.here[g.cfg.Durable] == 1
	p.groups.mu.Unlock()
	var err error
	if first { // or another node, which has not heard of it, may end one that is there
		err = p.announce(ctx)
	}
	if err == nil {
		err = p.ask(ctx, g.open)
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("backplane: %s: %w", g.name, err)
	}
	return g, nil
}

// Close says that this node has no members that OpenGroup was called for.
func (g *Group) Close() {
	all := &g.p.groups
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.here[g.cfg.Durable]--; all.here[g.cfg.Durable] == 0 {
		delete(all.here, g.cfg.Durable)
	}
}

// joined notes shared subscriptions that have members somewhere: if these go before undrawn looks, it counts from then on.
func (g *groups) joined(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		delete(g.left, name)
	}
}

// open finds the consumer, and makes it if there is none.
func (g *Group) open(ctx context.Context) (err error) {
	if _, err = g.p.stream.Consumer(ctx, g.cfg.Durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	all := &g.p.groups
	all.mu.Lock()
	all.n++
	full := all.n > maxGroups
	all.mu.Unlock()
	if full {
		return ErrGroups
	}
	_, err = g.p.stream.CreateConsumer(ctx, g.cfg)
	return err
}

// Drawn is a message that this node has drawn for a member of a Group. Its methods may be called from any goroutine, and do not block.
type Drawn struct {
	// Sent is how often it was sent to a member before, by this node or another, as far as is known, see BackSent.
	Sent uint64

	p     *Plane
	nc    *nats.Conn
	at    drawnAt
	drawn uint64 // how often it was, with this time
	reply string
}

// Done says that a member has it.
func (d *Drawn) Done() { d.say("+ACK") } // if NATS does not hear of it, it is drawn again

// Back gives it back. Sent counts it as sent once.
func (d *Drawn) Back() { d.say("-NAK") }

// BackSent gives it back and says how often it was sent in all.
func (d *Drawn) BackSent(n uint64) {
	d.p.tellSent(d.at, int64(n)-int64(d.drawn))
	d.Back()
}

// Hold says, every HoldEvery, that a member is going to have it.
func (d *Drawn) Hold() { d.say("+WPI") }

func (d *Drawn) say(what string) { _ = d.nc.Publish(d.reply, []byte(what)) }

// Feed draws messages and calls each for them, until ctx ends: as many at a time as room says, and MaxDraw at most. Where room is 0 it waits
// for more. It hands room what ends the drawing at hand; so the context of each ends, too.
func (g *Group) Feed(ctx context.Context, more <-chan struct{}, room func(end context.CancelFunc) int, each func(context.Context, *engine.Message, *Drawn)) {
	for ctx.Err() == nil {
		drawing, end := context.WithCancel(ctx)
		n := room(end)
		if n == 0 {
			end()
			select {
			case <-ctx.Done():
			case <-more:
			}
			continue
		}
		err := g.draw(drawing, n, each)
		end()
		if err == nil || ctx.Err() != nil {
			continue
		}
		g.p.log.Debug("messages are not drawn", "of", g.name, "error", err)
		if err := g.reopen(ctx); err != nil {
			g.p.log.Debug("there is nothing to draw from", "of", g.name, "error", err)
		}
	}
}

// draw calls each for up to n messages, and MaxDraw, for some seconds at most, or until ctx ends: so does the context of each then. What NATS has sent
// until then and each was not called for goes back, which the library's own Fetch leaves to drawnTime.
func (g *Group) draw(ctx context.Context, n int, each func(context.Context, *engine.Message, *Drawn)) error {
	n = min(n, MaxDraw)
	ctx, cancel := context.WithTimeout(ctx, drawnTime/3) // what waits behind a message that each does not return from is not held
	defer cancel()
	nc, inbox, came := g.p.jc, g.p.jc.NewInbox(), make(chan *nats.Msg, n+int(drawTime/drawSilence)+4) // and what says that it is alive
	sub, err := nc.ChanSubscribe(inbox, came)
	if err == nil {
		request := fmt.Sprintf(`{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, n, drawTime, drawSilence)
		err = nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+logStream+"."+g.cfg.Durable, inbox, []byte(request))
	}
	if err != nil {
		return fmt.Errorf("backplane: %s: %w", g.name, err)
	}
	ended, err := g.take(ctx, n, came, each)
	if ended {
		_ = sub.Unsubscribe()
		return err
	}
	_ = sub.Drain() // ends what NATS sends, and not what it has sent
	_ = nc.FlushTimeout(time.Second)
	for {
		select {
		case m := <-came:
			if len(m.Data) == 0 {
				continue
			}
			if d, _, err := g.drawnBy(m); err == nil {
				d.BackSent(d.Sent)
			}
		default:
			return err
		}
	}
}

// take takes what comes for draw. It reports false where more may come.
func (g *Group) take(ctx context.Context, n int, came <-chan *nats.Msg, each func(context.Context, *engine.Message, *Drawn)) (ended bool, err error) {
	silence := time.NewTimer(2 * drawSilence)
	defer silence.Stop()
	for n > 0 {
		if ctx.Err() != nil {
			return false, nil
		}
		var m *nats.Msg
		select {
		case <-ctx.Done():
			return false, nil
		case <-silence.C:
			return false, fmt.Errorf("backplane: %s: nobody answers", g.name)
		case m = <-came:
		}
		silence.Reset(2 * drawSilence)
		switch status := m.Header.Get("Status"); status {
		case "":
		case "100": // it is alive
			continue
		case "404", "408": // there are none, or not in time
			return true, nil
		default:
			return true, fmt.Errorf("backplane: %s: status %s, %s", g.name, status, m.Header.Get("Description"))
		}
		n--
		if msg, d := g.drawn(m); msg != nil {
			each(ctx, msg, d)
			silence.Reset(2 * drawSilence) // it may have taken long
		}
	}
	return true, nil
}

// drawn returns a message that was drawn, nil if it is none, or expired, which is done with.
func (g *Group) drawn(m *nats.Msg) (*engine.Message, *Drawn) {
	d, meta, err := g.drawnBy(m)
	if err == nil {
		var msg engine.Message
		if msg, err = g.p.aged(m.Data, meta.Timestamp, live.Now()); err == nil && msg.Expires > live.Now() {
			msg.Position = meta.Sequence.Stream
			return &msg, d
		}
	}
	d.Done()
	return nil, nil
}

// drawnBy returns how a message was drawn.
func (g *Group) drawnBy(m *nats.Msg) (*Drawn, *nats.MsgMetadata, error) {
	d := &Drawn{p: g.p, nc: g.p.jc, reply: m.Reply}
	meta, err := m.Metadata()
	if err != nil {
		return d, nil, err
	}
	d.at, d.drawn = drawnAt{g.cfg.Durable, meta.Sequence.Stream}, max(meta.NumDelivered, 1)
	d.Sent = uint64(max(int64(d.drawn)-1+g.p.groups.sends.of(d.at), 0))
	return d, meta, nil
}

// reopen is to be called after an error of draw, before the next one: NATS may have ended the consumer while nobody could draw. It
// waits for a moment first.
func (g *Group) reopen(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(drawPause):
	}
	return g.p.ask(ctx, g.open)
}

// undrawn returns the position up to which shared subscriptions need the log no more: what, unless one has something left before that. It ends
// those that are not among those with members, nil where these are not known.
func (p *Plane) undrawn(ctx context.Context, what uint64, members map[string]bool) (uint64, error) {
	if members == nil {
		return 0, nil
	}
	all := p.stream.ListConsumers(ctx)
	n, now, left := 0, time.Now(), map[string]time.Time{}
	for info := range all.Info() {
		if !strings.HasPrefix(info.Name, groupConsumer) {
			continue
		}
		n++
		if info.NumPending > 0 || info.NumAckPending > 0 {
			what = min(what, info.AckFloor.Stream)
		}
		if !members[info.Name] {
			left[info.Name] = now
		}
	}
	if err := all.Err(); err != nil {
		return 0, err
	}
	p.groups.mu.Lock()
	var ended []string
	for name := range left {
		if since, known := p.groups.left[name]; known {
			left[name] = since
		}
		if now.Sub(left[name]) > idleTime && p.groups.here[name] == 0 {
			ended = append(ended, name)
		}
	}
	p.groups.n, p.groups.left = n, left
	p.groups.mu.Unlock()
	for _, name := range ended {
		_ = p.stream.DeleteConsumer(ctx, name) // the next time, if not now
	}
	return what, nil
}
