package backplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
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
// So a message waits in the log while no member takes it, and comes to another one if its member's node dies.

const (
	// drawnTime is how long a message may be drawn until it is drawn by another node, unless Hold says that it is in good hands.
	drawnTime = 15 * time.Second
	// HoldEvery is how often Hold must say that.
	HoldEvery = drawnTime / 4
	// idleTime is the least time that a shared subscription lives without members: theirs may be about to come back.
	idleTime = 30 * time.Second
	// drawTime is how long Draw waits for messages, and drawSilence until it is said that there are none, twice over,
	// before a consumer is given up.
	drawTime, drawSilence = 4 * time.Second, time.Second
	// maxDrawn is how many messages of a shared subscription are drawn at once. Further ones wait in the log.
	maxDrawn = 20_000

	groupConsumer = "SHARED_" // begins the names of these consumers
)

// Group is a shared subscription of the cluster that draws from the log.
type Group struct {
	p    *Plane
	name string // as clients know it
	cfg  jetstream.ConsumerConfig
	c    jetstream.Consumer // of the goroutine that draws
}

// OpenGroup makes a shared subscription, which has what the log takes from now on, unless there is one. It ends when it has had
// no members for as long as the longest of lives.
func (p *Plane) OpenGroup(ctx context.Context, group, filter string, lives time.Duration) (*Group, error) {
	g := &Group{p: p, name: "$share/" + group + "/" + filter}
	hash := sha256.Sum256([]byte(g.name))
	g.cfg = jetstream.ConsumerConfig{Durable: groupConsumer + fmt.Sprintf("%x", hash[:16]), FilterSubjects: subjectsOf(logSubjects, filter),
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: drawnTime, MaxDeliver: -1, MaxAckPending: maxDrawn,
		InactiveThreshold: max(lives, idleTime)}
	if err := p.ask(ctx, g.open); err != nil {
		return nil, fmt.Errorf("backplane: %s: %w", g.name, err)
	}
	return g, nil
}

// open finds the consumer, and makes it if there is none, or lets it live longer.
func (g *Group) open(ctx context.Context) (err error) {
	g.c, err = g.p.stream.Consumer(ctx, g.cfg.Durable)
	switch {
	case err == nil && g.c.CachedInfo().Config.InactiveThreshold >= g.cfg.InactiveThreshold:
		return nil
	case err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound):
		return err
	}
	g.c, err = g.p.stream.CreateOrUpdateConsumer(ctx, g.cfg)
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

// undrawn returns the position up to which shared subscriptions need the log no more: what, unless one has something left before that.
func (p *Plane) undrawn(ctx context.Context, what uint64) (uint64, error) {
	if what == 0 {
		return 0, nil
	}
	all := p.stream.ListConsumers(ctx)
	for info := range all.Info() {
		if strings.HasPrefix(info.Name, groupConsumer) && (info.NumPending > 0 || info.NumAckPending > 0) {
			what = min(what, info.AckFloor.Stream)
		}
	}
	if all.Err() != nil {
		return 0, all.Err()
	}
	return what, nil
}
