package backplane

import (
	"context"
	crypto "crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/follow"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/reread"
)

// Names on NATS. Everything of a broker begins with "spillgate".
const (
	liveSubjects     = "spillgate.live."
	logSubjects      = "spillgate.log."
	retainedSubjects = "spillgate.retained."
	publishSubjects  = "spillgate.publish."
	shareSubjects    = "spillgate.share."
	replySubjects    = "spillgate.reply."
	unheardSubjects  = "spillgate.unheard."
	wantsSubjects    = "spillgate.wants."
	sessionSubjects  = "spillgate.session."
	aliveSubjects    = "spillgate.alive."
	sentSubjects     = "spillgate.sent."
	logStream        = "SPILLGATE_LOG"
	retainedStream   = "SPILLGATE_RETAINED"
	sessionBucket    = "spillgate-sessions"
	nodeBucket       = "spillgate-nodes"

	// What a bucket of KV is as a stream.
	bucketStream   = "KV_"
	bucketSubjects = "$KV."
	sessionStream  = bucketStream + sessionBucket
	nodeStream     = bucketStream + nodeBucket
)

// Plane is the backplane of one node. It is the hub's Forwarder, Log, Diverter and
// Watcher, and keeps sessions. Its methods may be called from any goroutine.
type Plane struct {
	cfg     Config
	log     *slog.Logger
	secure  *tls.Config                 // of nodes; nil without
	files   atomic.Pointer[reread.File] // of that
	server  *server.Server              // nil where NATS runs elsewhere
	account *server.Account             // of the nodes in server
	door    *door                       // into server
	nc      *nats.Conn                  // hears nothing that it sends
	jc      *nats.Conn                  // of JetStream
	js      jetstream.JetStream
	aside   jetstream.JetStream // of retained messages of QoS 0: one that does not answer holds up others for asideTime
	stalled bool                // it has not made room in that time
	stream  jetstream.Stream
	kv      jetstream.KeyValue // sessions
	nodes   jetstream.KeyValue // how far the feeds of nodes are
	hub     *engine.Hub

	origin uint64
	alone  bool // there are no other nodes
	number atomic.Uint64

	out      *queue               // of QoS 0 to other nodes
	flush    chan chan<- struct{} // has what is closed when out was sent; nil before that is
	appends  *queue               // to the log
	interest interest
	feed     feed
	groups   groups
	heard    chan *nats.Msg
	// heardShared is for members of shared subscriptions.
	heardShared chan *nats.Msg
	retained    retained
	retainedLog jetstream.Stream
	unsure      unsure
	diverted    diverted
	unheard     unheard
	others      atomic.Pointer[others]
	sessions    sessions
	told        told
	wills       wills
	offered     atomic.Uint64 // position in the log up to which the feed has begun to deliver what is wanted here
	position    atomic.Uint64 // the one up to which it has
	started     time.Time
	// The constants, but for tests.
	trimEvery, willsEvery, willSilence time.Duration
	mostAside                          int

	lost atomic.Uint64 // messages of QoS 0 that found no room
	bad  atomic.Uint64 // packets that are none
	full atomic.Bool   // the disk is
	// stuck says that the log of a single node has not answered for stuckTime.
	stuck atomic.Bool
	room  func(dir string, bytes int) error // whether they fit
	// size is how large the log may become, in bytes, and halved how often that was found too much, see logSize.
	size   int64
	halved int
	sized  bool // the log exists already
	// retainedBytes is how much the stream of retained messages may take on the disk.
	retainedBytes int64

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// New returns a plane that is not open yet. cfg must be free of mistakes, see
// Config.Check.
func New(cfg Config, log *slog.Logger) *Plane {
	cfg = cfg.WithDefaults()
	var random [8]byte
	_, _ = crypto.Read(random[:]) // never fails
	p := &Plane{cfg: cfg, log: log, started: time.Now(), trimEvery: trimEvery, willsEvery: willsEvery, willSilence: willSilence, mostAside: mostAside, room: room, retainedBytes: storedBytes * (64 << 20), alone: cfg.URL == "" && cfg.Cluster == "", origin: binary.LittleEndian.Uint64(random[:]) | 1, out: newQueue(cfg), appends: newQueue(cfg)}
	p.interest.more, p.interest.changed, p.interest.queues, p.interest.subs = make(chan struct{}, 1), map[engine.Interest]bool{}, map[string]engine.Interest{}, map[engine.Interest][]*nats.Subscription{}
	p.feed.filters, p.feed.more, p.feed.settling, p.feed.every = map[string]bool{}, make(chan struct{}, 1), make(chan struct{}), narrowEvery
	p.groups.here = map[string]int{}
	p.sessions.all = map[string]known{}
	p.told.all, p.told.came = map[string]toldBy{}, make(chan struct{}, 1)
	p.wills.all, p.wills.here, p.wills.begun, p.wills.drops = map[string]Will{}, map[string]string{}, map[string]uint64{}, map[string]Will{}
	p.wills.silent, p.wills.more, p.wills.later = map[uint64]time.Time{}, make(chan struct{}, 1), make(chan struct{}, willsAtOnce)
	p.unsure.topics, p.unsure.more = map[string]bool{}, make(chan struct{}, 1)
	p.heard, p.heardShared = make(chan *nats.Msg, heardMessages), make(chan *nats.Msg, heardMessages)
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Open starts or reaches NATS, makes what it keeps there, and has the hub hear what other
// nodes send and what the log has, from now on. It waits for a majority of the nodes,
// until ctx ends. Retained messages are there when it returns. Close ends what it began,
// also after an error.
func (p *Plane) Open(ctx context.Context, hub *engine.Hub) error {
	if err := p.connect(); err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	return p.attach(ctx, hub)
}

// heardMessages is how many messages of other nodes wait to be delivered. What comes
// beyond is dropped and counted.
const heardMessages = 8192

func (p *Plane) connect() (err error) {
	if err := p.lock(); err != nil {
		return err
	}
	if p.cfg.URL == "" {
		if p.server, err = embed(p.cfg, p.secure); err != nil {
			return err
		}
		p.account = p.server.GlobalAccount()
		p.door = &door{server: p.server, inside: map[*entered]bool{}}
	}
	if p.nc, err = p.Dial(nats.NoEcho()); err != nil {
		return err
	}
	if p.jc, err = p.Dial(); err != nil {
		return err
	}
	if p.js, err = jetstream.New(p.jc, jetstream.WithPublishAsyncTimeout(ackTime), jetstream.WithPublishAsyncMaxPending(2*maxUnder)); err != nil {
		return err
	}
	p.aside, err = jetstream.New(p.jc, jetstream.WithPublishAsyncTimeout(ackTime), jetstream.WithPublishAsyncMaxPending(p.mostAside),
		jetstream.WithPublishAsyncErrHandler(p.notRetained))
	return err
}

// Dial returns a new connection to NATS, which the caller closes, before Close.
func (p *Plane) Dial(more ...nats.Option) (*nats.Conn, error) {
	options := append(more, nats.Name("spillgate broker "+p.cfg.Node), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond),
		nats.ReconnectBufSize(p.cfg.PendingBytes), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			p.log.Debug("NATS", "error", err)
		}))
	if p.server != nil {
		options = append(options, nats.InProcessServer(p.door))
	} else if p.secure != nil {
		options = append(options, nats.Secure(p.secure))
	}
	nc, err := nats.Connect(p.cfg.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("backplane: NATS at %s: %w", p.cfg.URL, err)
	}
	return nc, nil
}

// attemptTime bounds one attempt to make what NATS keeps.
const attemptTime = 10 * time.Second

// prepare makes streams and buckets, and waits for a majority.
func (p *Plane) prepare(ctx context.Context) error {
	told := false
	for {
		try, cancel := context.WithTimeout(ctx, attemptTime)
		err := p.make(try)
		cancel()
		if err == nil {
			if p.cfg.MaxBytes == 0 && p.size < logBytes {
				p.log.Info("the disk is small, so the log of messages is, too; max_bytes sets another size", "data", p.cfg.Data, "bytes", p.size)
			}
			return nil
		}
		if full(err) && p.smaller() {
			continue
		}
		if p.alone && full(err) {
			return p.noRoom(err)
		}
		p.log.Debug("the cluster is not ready", "error", err)
		if !told {
			told = true
			p.log.Info("waiting for the cluster", "node", p.cfg.Node, "because", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("backplane: NATS has no JetStream yet, are %d nodes of %d up? %w", p.cfg.nodes()/2+1, p.cfg.nodes(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// make makes all at once: with several nodes each finds its own leader first, which
// takes seconds.
func (p *Plane) make(ctx context.Context) error {
	size, err := p.logSize(ctx)
	if err != nil {
		return err
	}
	p.size = size
	all, ctx := errgroup.WithContext(ctx)
	logged := make(chan struct{}) // the log has its room
	all.Go(func() (err error) {
		defer close(logged)
		p.stream, err = p.keep(ctx, jetstream.StreamConfig{Name: logStream, Description: "messages of QoS 1 and 2", Subjects: []string{logSubjects + ">"},
			Discard: jetstream.DiscardNew, MaxBytes: size, MaxAge: p.cfg.MaxAge, Duplicates: p.cfg.onceFor()})
		return err
	})
	all.Go(func() error {
		<-logged
		return p.keepRetained(ctx)
	})
	for bucket, kv := range map[string]*jetstream.KeyValue{sessionBucket: &p.kv, nodeBucket: &p.nodes} {
		all.Go(func() (err error) {
			*kv, err = p.bucket(ctx, bucket)
			return err
		})
	}
	return all.Wait()
}

// bucket makes a bucket of KV.
func (p *Plane) bucket(ctx context.Context, name string) (kv jetstream.KeyValue, err error) {
	if _, err := p.keep(ctx, jetstream.StreamConfig{Name: bucketStream + name, Subjects: []string{bucketSubjects + name + ".>"},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowMsgTTL: true}); err != nil {
		return nil, err
	}
	err = p.ask(ctx, func(ctx context.Context) (err error) {
		kv, err = p.js.KeyValue(ctx, name)
		return err
	})
	return kv, err
}

// keep makes a stream of files. Its leader alone answers who reads a message (without AllowDirect, which the
// library sets for KV): other copies may lack what was stored a moment ago.
func (p *Plane) keep(ctx context.Context, cfg jetstream.StreamConfig) (s jetstream.Stream, err error) {
	cfg.Storage, cfg.Replicas = jetstream.FileStorage, p.cfg.Replicas
	err = p.ask(ctx, func(ctx context.Context) (err error) {
		s, err = p.js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
	return s, err
}

// attach starts what carries messages.
func (p *Plane) attach(ctx context.Context, hub *engine.Hub) error {
	p.hub = hub
	var info *jetstream.StreamInfo
	if err := p.ask(ctx, func(ctx context.Context) (err error) {
		info, err = p.stream.Info(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("backplane: the log: %w", err)
	}
	p.offered.Store(info.State.LastSeq)
	p.position.Store(info.State.LastSeq)
	if err := p.markWants(); err != nil {
		return err
	}
	if err := p.announce(ctx); err != nil { // or the others cut the log before this node has read it
		return fmt.Errorf("backplane: %w", err)
	}
	if _, err := p.load(ctx, retainedStream, p.retain); err != nil {
		return err
	}
	if err := p.serveDiverted(); err != nil {
		return err
	}
	if err := p.hearUnheard(); err != nil {
		return err
	}
	if err := p.hearAlive(); err != nil {
		return err
	}
	if err := p.hearSent(); err != nil {
		return err
	}
	p.follow(info.State.LastSeq)
	flush := make(chan chan<- struct{}, 1)
	p.flush = flush
	p.done.Go(func() { p.forward(flush) })
	p.done.Go(p.reread)
	p.done.Go(p.subscribe)
	p.done.Go(p.hear)
	p.done.Go(p.hearShared)
	p.appending()
	knows, err := p.load(ctx, sessionStream, p.knows)
	if err != nil {
		return err
	}
	p.sessions.heard(knows)
	if _, err := p.load(ctx, nodeStream, p.hears); err != nil {
		return err
	}
	p.done.Go(p.trim)
	p.done.Go(p.watchWills)
	if p.server != nil && !p.alone {
		p.done.Go(p.meet)
	}
	if p.server != nil {
		if limits := p.server.JetStreamConfig(); limits != nil {
			p.done.Go(func() { p.watchDisk(*limits) })
		}
	}
	return nil
}

// streamOf returns a stream to be read.
func (p *Plane) streamOf(name string) follow.Stream {
	return follow.Stream{JS: p.js, Name: name, Log: p.log}
}

// load follows a stream from its beginning. It returns the position up to which what the stream had is handled, when that is so.
func (p *Plane) load(ctx context.Context, stream string, handle func(*follow.Message)) (had uint64, err error) {
	wrap := func(err error) error { return fmt.Errorf("backplane: %s: %w", stream, err) }
	var s jetstream.Stream
	if err := p.ask(ctx, func(ctx context.Context) (err error) {
		s, err = p.js.Stream(ctx, stream)
		return err
	}); err != nil {
		return 0, wrap(err)
	}
	var handled atomic.Uint64
	came := make(chan struct{}, 1)
	p.done.Go(func() {
		p.streamOf(stream).Follow(p.ctx, 0, func(all []follow.Message) {
			for i := range all {
				handle(&all[i])
			}
			handled.Store(all[len(all)-1].Position)
			select {
			case came <- struct{}{}:
			default:
			}
		})
	})
	had = s.CachedInfo().State.LastSeq
	for last := had; handled.Load() < last; {
		select {
		case <-came:
		case <-ctx.Done():
			return 0, wrap(ctx.Err())
		case <-time.After(lookAgain):
			// The last message may be one that the stream has forgotten, or forgets now.
			if last, err = p.last(ctx, s); err != nil {
				return 0, wrap(err)
			}
			last = min(last, had)
		}
	}
	return had, nil
}

// lookAgain is for how long nothing comes of a stream that is loaded until it is asked what its last message is.
const lookAgain = 50 * time.Millisecond

// last returns the position of the last message that a stream has, 0 if it has none.
func (p *Plane) last(ctx context.Context, s jetstream.Stream) (position uint64, err error) {
	err = p.ask(ctx, func(ctx context.Context) error {
		m, err := s.GetLastMsgForSubject(ctx, ">")
		if err == nil {
			position = m.Sequence
		}
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	return position, err
}

// Close ends everything. What waits to be stored is not acknowledged; what waits to be sent to other nodes is sent before, if that goes soon.
func (p *Plane) Close() {
	if flush := p.flush; flush != nil {
		sent := make(chan struct{})
		p.flush = nil
		flush <- sent
		select {
		case <-sent:
		case <-time.After(2 * flushTime):
		}
	}
	p.wills.mu.Lock()
	p.stop()
	p.wills.mu.Unlock()
	for _, nc := range []*nats.Conn{p.nc, p.jc} {
		if nc != nil {
			nc.Close()
		}
	}
	p.done.Wait()
	if p.server != nil {
		p.server.Shutdown()
		p.server.WaitForShutdown()
	}
}

// Alone reports whether there are no other nodes.
func (p *Plane) Alone() bool { return p.alone }

// Node returns the name of this node.
func (p *Plane) Node() string { return p.cfg.Node }

// Conn returns the connection to NATS, for others that keep something there.
func (p *Plane) Conn() *nats.Conn { return p.jc }

// ClientURL returns where the embedded server takes clients of NATS, empty without.
func (p *Plane) ClientURL() string {
	if p.server == nil || p.cfg.Listen == "" {
		return p.cfg.URL
	}
	return p.server.ClientURL()
}

// Number returns a new number for a message, see engine.Message.
func (p *Plane) Number() (origin, count uint64) { return p.origin, p.number.Add(1) }

// Position returns the position in the log up to which subscribers of this node were
// served.
func (p *Plane) Position() uint64 { return p.position.Load() }

// Offered returns the position in the log that subscribers of this node are being served.
// What comes is later.
func (p *Plane) Offered() uint64 { return p.offered.Load() }

// Stats are the numbers of a Plane.
type Stats struct {
	// Position is how far this node has delivered the log.
	Position uint64
	// Storing and Sending are the messages that wait to be stored and to be sent on.
	Storing, Sending int
	// Lost counts messages of QoS 0 for other nodes, and of other nodes, that found no room, Malformed what
	// other nodes sent and no node can have sent.
	Lost, Malformed uint64
}

// Stats returns the numbers of now.
func (p *Plane) Stats() Stats {
	length := func(q *queue) int { q.mu.Lock(); defer q.mu.Unlock(); return len(q.entries) }
	return Stats{p.Position(), length(p.appends), length(p.out), p.lost.Load() + p.interest.lost(), p.bad.Load()}
}

// name returns the number of a message, a new one unless it has one.
func (p *Plane) name(m *engine.Message) number {
	if m.Origin == 0 {
		return number{p.origin, p.number.Add(1)}
	}
	return number{m.Origin, m.Number}
}

// Forward sends a message of QoS 0 to nodes that want it, and to all what is retained.
func (p *Plane) Forward(_ *engine.Batch, m *engine.Message) {
	if !m.Retain && (p.alone || !p.wantedElsewhere(m.Topic)) {
		if a, asks := m.From.(engine.Asker); asks {
			a.Unheard()
		}
		return
	}
	if m.Retain {
		p.retained.sent(m.Topic.Name())
	}
	if !p.out.push(m, 0, p.name(m)) {
		p.lost.Add(1)
		if m.Retain {
			p.notKept(m.Topic.Name())
		}
	}
}

// flushTime is how long Close waits, at most, until NATS has what was sent, and as long until streams have taken it.
const flushTime = time.Second

// forward sends what Forward took.
func (p *Plane) forward(flush <-chan chan<- struct{}) {
	var all []entry
	for {
		select {
		case <-p.ctx.Done():
			return
		case sent := <-flush:
			p.sendOn(p.out.take(all))
			_ = p.nc.FlushTimeout(flushTime)
			select {
			case <-p.aside.PublishAsyncComplete():
			case <-time.After(flushTime):
			}
			close(sent)
			return
		case <-p.out.more:
		}
		all = p.out.take(all)
		p.sendOn(all)
	}
}

// sendOn sends messages to other nodes.
func (p *Plane) sendOn(all []entry) {
	p.interested()
	for i := range all {
		m := &all[i].kept.Message
		data := all[i].packet(live.Now())
		if err := p.nc.PublishMsg(&nats.Msg{Subject: subjectOf(liveSubjects, m.Topic.Name()), Reply: p.asking(m.From), Data: data}); err != nil {
			p.lost.Add(1)
		}
		if m.Retain {
			p.storeRetained(m, data)
		}
		all[i].kept.Release()
	}
}

// hear delivers what other nodes sent.
func (p *Plane) hear() {
	b := p.hub.NewBatch()
	var windows windows
	for {
		var m *nats.Msg
		select {
		case <-p.ctx.Done():
			return
		case m = <-p.heard:
		}
		b.Begin(live.Now())
		for more := true; more; {
			if pk, err := decode(m.Data); err != nil {
				p.malformed(err)
			} else if windows.first(pk.number) {
				if msg, err := pk.message(p.hub, b.Now()); err == nil {
					b.Deliver(&msg)
				}
			}
			select {
			case m = <-p.heard:
			default:
				more = false
			}
		}
		b.End()
	}
}

func (p *Plane) malformed(err error) {
	if p.bad.Add(1) == 1 {
		p.log.Warn("a message of another node cannot be read", "error", err)
	}
}

// windows tell copies of a message from the first: a node whose clients have two filters
// that cover a topic is sent its messages twice.
type windows struct{ of map[uint64]*window }

// maxOrigins is how many processes are told apart; beyond, all are forgotten.
const maxOrigins = 4096

// window is which of the last numbers of an origin came.
type window struct {
	newest uint64
	came   [16]uint64
}

// first reports whether a message has not come before.
func (w *windows) first(of number) bool {
	origin, number := of.origin, of.count
	at := w.of[origin]
	if at == nil {
		if w.of == nil || len(w.of) >= maxOrigins {
			w.of = map[uint64]*window{}
		}
		at = &window{newest: number}
		w.of[origin] = at
	}
	size := uint64(64 * len(at.came))
	switch {
	case number > at.newest+size:
		clear(at.came[:])
		at.newest = number
	case number > at.newest:
		for n := at.newest + 1; n <= number; n++ {
			at.came[n/64%16] &^= 1 << (n % 64)
		}
		at.newest = number
	case at.newest-number >= size:
		return false
	}
	bit := uint64(1) << (number % 64)
	was := at.came[number/64%16] & bit
	at.came[number/64%16] |= bit
	return was == 0
}
