package backplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// A shared subscription that draws from the log (engine.Subscription.Draws) is a consumer of it, which outlives processes:
//
//	log ─▶ consumer of $share/g/a/# ─▶ node 1: Draw ─▶ member ─▶ Drawn.Done
//	                              └──▶ node 2: Draw ─▶ member, gone ─▶ Drawn.Back ─▶ drawn again, at any node
//
// So a message waits in the log while no member takes it, and comes to another one if its member's node dies. The consumer is ended when
// neither a stored session (Session.Groups) nor a connected client is a member any more.

const (
	// drawnTime is how long a message may be drawn until it is drawn by another node, unless Hold says that it is in good hands.
	drawnTime = 15 * time.Second
	// HoldEvery is how often Hold must say that.
	HoldEvery = drawnTime / 4
	// idleTime is how long a shared subscription lives without members: one may just have come, and its node not have told so yet.
	idleTime = 30 * time.Second
	// maxGroups is how many shared subscriptions the cluster has, about. Each takes memory of three nodes. Further ones are refused.
	maxGroups = 2000
	// drawTime is how long Draw waits for messages, and drawSilence until it is said that there are none, twice over,
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
	left map[string]time.Time // those that have no members any more, and since when that is known
}

// Group is a shared subscription of the cluster that draws from the log.
type Group struct {
	p    *Plane
	name string // as clients know it
	cfg  jetstream.ConsumerConfig
	c    jetstream.Consumer // of the goroutine that draws
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
	p.groups.mu.Unlock()
	if err := p.ask(ctx, g.open); err != nil {
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

// open finds the consumer, and makes it if there is none.
func (g *Group) open(ctx context.Context) (err error) {
	if g.c, err = g.p.stream.Consumer(ctx, g.cfg.Durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
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
	g.c, err = g.p.stream.CreateConsumer(ctx, g.cfg)
	return err
}

// Drawn is a message that this node has drawn for a member of a Group. Its methods may be called from any goroutine, and do not block.
type Drawn struct{ m jetstream.Msg }

// Done says that a member has it.
func (d *Drawn) Done() { _ = d.m.Ack() } // if NATS does not hear of it, it is drawn again

// Back gives it back.
func (d *Drawn) Back() { _ = d.m.Nak() }

// Hold says, every HoldEvery, that a member is going to have it.
func (d *Drawn) Hold() { _ = d.m.InProgress() }

// Draw calls each for up to n messages, for some seconds at most, or until ctx ends.
func (g *Group) Draw(ctx context.Context, n int, each func(*engine.Message, *Drawn)) error {
	ctx, cancel := context.WithTimeout(ctx, drawTime)
	defer cancel()
	batch, err := g.c.Fetch(n, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(drawSilence))
	if err != nil {
		return fmt.Errorf("backplane: %s: %w", g.name, err)
	}
	for m := range batch.Messages() {
		d := &Drawn{m}
		meta, err := m.Metadata()
		if err != nil {
			d.Done() // it is no message of a consumer
			continue
		}
		msg, err := g.p.aged(m.Data(), meta.Timestamp, live.Now())
		if err != nil || msg.Expires <= live.Now() {
			d.Done()
			continue
		}
		msg.Position = meta.Sequence.Stream
		each(&msg, d)
	}
	if err := batch.Error(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("backplane: %s: %w", g.name, err)
	}
	return nil
}

// Reopen is to be called after an error of Draw, before the next one: NATS may have ended the consumer while nobody could draw.
func (g *Group) Reopen(ctx context.Context) error { return g.p.ask(ctx, g.open) }

// undrawn returns the position up to which shared subscriptions need the log no more: what, unless one has something left before that. It ends
// those that are not among those with members.
func (p *Plane) undrawn(ctx context.Context, what uint64, members map[string]bool) (uint64, error) {
	if what == 0 {
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
