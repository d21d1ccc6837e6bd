package mqtt

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"golang.org/x/sync/errgroup"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// A session that outlives its connection is stored where there is a backplane: what it
// subscribes to, a position in the log, and what is under way. Whatever node the client
// comes back to reads on from that position. In memory it is only while the client is
// connected, and a client that falls behind is read to from the log.
//
//	connected, caught up   the node's feed of the log ─▶ session
//	connected, behind      the log after s.next ─▶ session, until that is where the feed is
//	away                   nothing; the log keeps what comes after the stored position
//
// Messages of QoS 2 are exact across the death of a node, since both sides' packet
// identifiers are stored before they count: that of a message to the client before the
// message goes, that it is released before PUBREL goes; that of a message from the client
// with the number under which the log takes it once, before it is stored; and that it is
// done before PUBCOMP goes.

// kept is what a session has for that. It is guarded by the session's lock.
type kept struct {
	next    uint64 // up to this position of the log everything was sent, queued or not wanted
	reading bool   // from the log; the feed is not listened to
	changed bool   // since it was stored last
	held    bool   // something is stored and found no room in the outbox
	filters []subscribed
	numbers map[uint16]numbered // of messages of QoS 2 that are not completed

	room     chan struct{} // has one element after the queue got shorter
	dirty    chan struct{} // has one element while something waits to be stored
	saving   sync.Mutex    // is held while it is stored; before the session's lock
	writer   string        // the connection, as what is stored names it
	revision uint64        // of what is stored; guarded by saving
}

// durable is what a connection runs for a session that is stored.
type durable struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	over    bool // guarded by the session's lock: nothing is started any more
}

// subscribed is a subscription as it is stored.
type subscribed struct {
	Name        string `json:"name"`
	QoS         byte   `json:"qos,omitempty"`
	NoLocal     bool   `json:"no_local,omitempty"`
	AsPublished bool   `json:"as_published,omitempty"`
	ID          uint32 `json:"id,omitempty"`
	// Since is the position in the log that it begins after.
	Since uint64 `json:"since"`
}

// numbered is a message of QoS 2 from the client.
type numbered struct {
	Origin, Count uint64
	Stored        bool // PUBREC may have gone
	// At is a position in the log before that of the message, if it is there, and Since when the message had its number.
	At    uint64
	Since time.Time
}

// under is a message to the client that it may have and has not acknowledged.
type under struct {
	ID       uint16 `json:"id"`
	Position uint64 `json:"position"`
	QoS      byte   `json:"qos"`
	Released bool   `json:"released,omitempty"`
}

// retained is a message that the client is owed because of a subscription: that of a topic, which the log may not have, so that it gets the
// one that is retained when it is back. Of QoS 2 it is one that was not sent.
type retained struct {
	Topic string `json:"topic"`
	QoS   byte   `json:"qos"`
	ID    uint16 `json:"id,omitempty"` // by which it was sent; 0: it was not
}

// maxRetained bounds how much of them is stored, in bytes of JSON, of which a topic may need six for one. The client does not get more.
const maxRetained = 128 << 10

// stored is a session as it is stored.
type stored struct {
	Owner         string              `json:"owner,omitempty"` // the user
	Next          uint64              `json:"next"`
	Subscriptions []subscribed        `json:"subscriptions,omitempty"`
	Under         []under             `json:"under,omitempty"`
	Retained      []retained          `json:"retained,omitempty"`
	Numbers       map[uint16]numbered `json:"numbers,omitempty"`
}

// storeTime bounds how long a client waits for its session to be stored or loaded.
const storeTime = 10 * time.Second

// saveEvery is how often what was acknowledged is stored. What was acknowledged since
// is sent again after the node has died, for QoS 1.
const saveEvery = time.Second

// idleSaves is after how many of these a session is stored to which nothing happened but
// that the log went on: until then the log is kept for it.
const idleSaves = 30

// errStore closes a connection whose session cannot be stored or loaded.
var errStore = packets.ErrServerUnavailable

// Join has sessions and acknowledged messages outlive the process. It must be called
// before Serve and before the plane is opened.
func (srv *Server) Join(p *backplane.Plane) {
	srv.plane = p
	p.OnKick(srv.kick)
	p.OnWill(srv.inherit)
}

// kick disconnects a client that connects to another node, and waits until its session is
// stored. It reports false for one that is not owner's, which stays.
func (srv *Server) kick(client, owner string) bool {
	srv.mu.Lock()
	s := srv.sessions[client]
	var c *conn
	if s != nil {
		c = s.conn
	}
	srv.mu.Unlock()
	switch {
	case c == nil:
		return true
	case s.owner != owner:
		return false
	}
	c.Kick(packets.ErrSessionTakenOver)
	return true
}

// senderOf is a client as messages name it.
func senderOf(client string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(client)) // never fails
	return h.Sum64() | 1
}

// admit gives c the session of a client, whatever node that is at.
func (srv *Server) admit(c *conn, id string, clean bool, expiry time.Duration, window int) (present bool, err error) {
	if !c.entered {
		err = srv.mayEnter(c, id, clean)
	}
	if err == nil {
		present, err = srv.enter(c, id, clean, expiry, window)
	}
	if err == nil {
		if err = srv.claim(id, c.who.Name()); err != nil {
			c.session.mu.Lock()
			c.session.expiry = 0 // it ends with its connection
			c.session.mu.Unlock()
		}
	}
	if err == nil {
		present, err = srv.restore(c, clean, present)
	}
	if err == nil {
		srv.recall(id, clean)
	}
	return present, err
}

// mayEnter refuses c a stored session of another user before anything is done about it: its
// own user neither loses the connection nor meets, for a moment, a session that is not theirs.
func (srv *Server) mayEnter(c *conn, id string, clean bool) error {
	if srv.plane == nil || clean && !srv.plane.Known(id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	_, err := srv.stored(ctx, id, c.who.Name())
	return err
}

// mayBe refuses c the name of a client that another user has at this node, in a session that is stored, or at another node. It reports
// false where other nodes do not say in time.
func (srv *Server) mayBe(c *conn, id string, clean bool) (known bool, err error) {
	srv.mu.Lock()
	s := srv.sessions[id]
	srv.mu.Unlock()
	if s != nil && s.owner != c.who.Name() {
		return false, packets.ErrNotAuthorized
	}
	if err := srv.mayEnter(c, id, clean); err != nil || srv.plane == nil {
		return err == nil, err
	}
	c.entered = true
	ctx, cancel := context.WithTimeout(context.Background(), whereTime)
	defer cancel()
	taken, err := srv.plane.Taken(ctx, id, c.who.Name())
	if taken {
		return false, packets.ErrNotAuthorized
	}
	return err == nil, nil
}

// stored returns the stored session of a client, nil if there is none, or an error if it is
// not owner's.
func (srv *Server) stored(ctx context.Context, id, owner string) (*backplane.Session, error) {
	s, err := srv.plane.LoadSession(ctx, id)
	switch {
	case err != nil:
		srv.log.Warn("a session cannot be loaded", "error", err)
		return nil, errStore
	case s != nil && ownerOf(s) != owner:
		return nil, packets.ErrNotAuthorized
	}
	return s, nil
}

// claim has other nodes give a client up, if it is owner's there.
func (srv *Server) claim(client, owner string) error {
	if srv.plane == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	switch err := srv.plane.Claim(ctx, client, owner); {
	case errors.Is(err, backplane.ErrOwned):
		return packets.ErrNotAuthorized
	case err != nil:
		srv.log.Warn("a client cannot be claimed", "error", err)
		return errStore
	}
	return nil
}

// restore gives the session of c, which is new, what was stored of it, and stores it if
// it is to outlive the connection. After an error the session ends with its connection, and
// what is stored stays as it is.
func (srv *Server) restore(c *conn, clean, present bool) (bool, error) {
	if srv.plane == nil {
		return present, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	present, err := srv.fetch(ctx, c, clean)
	if err != nil {
		s := c.session
		s.mu.Lock()
		s.durable, s.expiry = false, 0
		s.mu.Unlock()
	}
	return present, err
}

// fetch is restore, but for what an error leaves.
func (srv *Server) fetch(ctx context.Context, c *conn, clean bool) (present bool, err error) {
	s, p := c.session, srv.plane
	var old *backplane.Session
	if !clean || p.Known(s.id) {
		if old, err = srv.stored(ctx, s.id, s.owner); err != nil {
			return false, err
		}
	}
	failed := func(err error) (bool, error) {
		srv.log.Warn("a session cannot be loaded", "error", err)
		return false, errStore
	}
	if clean && old != nil {
		if err := p.DeleteSession(ctx, s.id, old.Revision); err != nil {
			return failed(err)
		}
		old = nil
	}
	if old == nil && s.expiry == 0 {
		return false, nil
	}
	s.mu.Lock()
	s.durable, s.next = true, p.Position()
	s.reading = old != nil
	s.room, s.dirty = make(chan struct{}, 1), make(chan struct{}, 1)
	s.numbers = map[uint16]numbered{}
	s.mu.Unlock()
	origin, count := p.Number()
	s.writer, s.revision = writer(origin, count), 0
	if old != nil {
		s.revision = old.Revision
		if err := s.load(ctx, old); err != nil {
			return failed(err)
		}
	}
	if s.save(time.Time{}) != nil {
		return false, errStore
	}
	c.stored.ctx, c.stored.cancel = context.WithCancel(context.Background())
	return old != nil, nil
}

// ownerOf returns the user that a stored session belongs to.
func ownerOf(old *backplane.Session) string {
	var in struct {
		Owner string `json:"owner"`
	}
	_ = json.Unmarshal(old.State, &in) // load says what is wrong with it
	return in.Owner
}

// load takes what was stored.
func (s *session) load(ctx context.Context, old *backplane.Session) error {
	var in stored
	if err := json.Unmarshal(old.State, &in); err != nil {
		return err
	}
	messages, err := s.underWay(ctx, in.Under)
	if err != nil {
		return err
	}
	for _, f := range in.Subscriptions {
		group, filter, err := splitShared(f.Name)
		if err != nil || !s.conn.who.MaySubscribe(filter) {
			continue
		}
		sub := &engine.Subscription{Who: s, Sender: s.sender, QoS: f.QoS, NoLocal: f.NoLocal, AsPublished: f.AsPublished, ID: f.ID, Group: group}
		sub.Draws = group != ""
		if err := s.srv.hub.Subscribe(filter, sub); err != nil {
			return err
		}
		s.subs[f.Name] = sub
		s.filters = append(s.filters, f)
		if sub.Draws {
			if err := s.srv.share(s, sub, poolKey{group, filter}); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = in.Next
	for id, n := range in.Numbers {
		s.numbers[id] = n
		if n.Stored {
			s.inbound[id] = received
		}
	}
	for i := range in.Under {
		if err := s.again(&in.Under[i], messages[i]); err != nil {
			return err
		}
	}
	for _, r := range in.Retained {
		if err := s.owes(&r); err != nil {
			return err
		}
	}
	for i := range s.slots {
		if s.slots[i].qos == 0 {
			s.free = append(s.free, uint16(i))
		}
	}
	return nil
}

// loadsAtOnce is how many messages of a session are asked for at once. One after the other, as many
// as a window may hold would take longer than storeTime: each takes a round trip.
const loadsAtOnce = 16

// underWay returns the messages that were under way, nil where only a number was, and for one that
// is older than the log. The lock is not held.
func (s *session) underWay(ctx context.Context, all []under) ([]*engine.Kept, error) {
	messages := make([]*engine.Kept, len(all))
	loading, ctx := errgroup.WithContext(ctx)
	loading.SetLimit(loadsAtOnce)
	for i := range all {
		if all[i].Released {
			continue
		}
		loading.Go(func() error {
			m, found, err := s.srv.plane.At(ctx, all[i].Position)
			if found {
				messages[i] = m.Keep()
			}
			return err
		})
	}
	return messages, loading.Wait()
}

// again puts a message that was under way into its slot. The lock is held.
func (s *session) again(u *under, m *engine.Kept) error {
	at := slot{queued: queued{kept: m, qos: u.QoS}, released: u.Released, order: s.sent + 1}
	if u.ID == 0 || u.QoS < 1 || u.QoS > 2 {
		return errors.New("a stored session has a message without a packet identifier or QoS")
	}
	switch {
	case u.Released:
	case m != nil:
		_, at.retain, at.ids, _ = s.wants(&m.Message)
	case u.QoS < 2:
		return nil // it is older than the log
	default:
		at.released = true // as session.skip says
	}
	for len(s.slots) < int(u.ID) {
		s.slots = append(s.slots, slot{})
	}
	s.slots[u.ID-1] = at
	s.sent++
	s.inUse++
	return nil
}

// owes has the session send what is retained of a topic. The lock is held.
func (s *session) owes(r *retained) error {
	m := s.srv.hub.RetainedOf(r.Topic)
	if m == nil {
		return nil
	}
	qos, _, ids, ok := s.wants(&m.Message)
	if qos = min(qos, r.QoS); !ok || qos == 0 || r.ID > 0 && qos != r.QoS {
		m.Release()
		return nil
	}
	if r.ID == 0 {
		if !s.queue.push(queued{kept: m, qos: qos, retain: true, ids: ids}, s.srv.limits.Queue, s.srv.limits.QueueBytes) {
			m.Release()
		}
		return nil
	}
	if err := s.again(&under{ID: r.ID, QoS: qos}, m); err != nil {
		return err
	}
	s.slots[r.ID-1].retain = true
	return nil
}

// wants returns what the subscriptions that are not shared ask for together about a
// message of the log, or a retained one. The lock is held, or nothing else runs yet.
func (s *session) wants(m *engine.Message) (qos byte, retain bool, ids []uint32, ok bool) {
	local := true
	for i := range s.filters {
		f := &s.filters[i]
		group, filter, err := splitShared(f.Name)
		if err != nil || group != "" || m.Position > 0 && f.Since >= m.Position || !engine.Matches(filter, m.Topic.Name()) {
			continue
		}
		ok = true
		qos = max(qos, f.QoS)
		local = local && f.NoLocal
		retain = retain || f.AsPublished
		if f.ID > 0 {
			ids = append(ids, f.ID)
		}
	}
	return min(qos, m.QoS), retain && m.Retain, ids, ok && !(local && m.Sender == s.sender)
}

// has reports whether a message of a session that is stored need not be delivered: one of the log that was, or is
// read later, and any other before CONNACK. The lock is held.
func (s *session) has(position uint64) bool {
	if !s.durable || position == 0 {
		return s.durable && s.loading
	}
	if s.reading || position <= s.next {
		return true
	}
	s.next, s.changed = position, true
	return false
}

// behind has a message, and all after it, read from the log later, since the queue is
// full. It reports false where that is not possible. The lock is held.
func (s *session) behind(position uint64) bool {
	if !s.durable || position == 0 {
		return false
	}
	s.next, s.reading = position-1, true
	c := s.conn
	if c == nil || c.stored.over {
		return true
	}
	c.stored.running.Go(func() { s.read(c) })
	return true
}

// roomy tells read that the queue got shorter. The lock is held.
func (s *session) roomy() {
	if s.reading {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

// touch has the session stored soon. The lock is held.
func (s *session) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// follow starts what a connection runs for a session that is stored.
func (c *conn) follow() {
	s := c.session
	if !s.durable {
		return
	}
	c.stored.running.Go(func() { s.keepSaved(c) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading {
		c.stored.running.Go(func() { s.read(c) })
	}
	s.touch() // what was loaded and not released
}

// read reads from the log until the session is where the node's feed is.
func (s *session) read(c *conn) {
	b := s.srv.hub.NewBatch()
	for c.stored.ctx.Err() == nil {
		if !s.settled(c.stored.ctx) { // or what the feed has does not begin where this ends
			select {
			case <-c.stored.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		s.mu.Lock()
		after := s.next
		s.mu.Unlock()
		at, err := s.srv.plane.Read(c.stored.ctx, after, func(m *engine.Message) bool { return s.catch(c, b, m) })
		if err != nil {
			select {
			case <-c.stored.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		s.mu.Lock()
		s.next = max(s.next, at)
		if err == nil && s.next >= s.srv.plane.Offered() {
			s.reading, s.changed = false, true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// settled waits until the node's feed has what the session subscribes to. It reports false where that takes too long.
func (s *session) settled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	s.mu.Lock()
	filters := s.filters // which is replaced and never changed
	s.mu.Unlock()
	for _, f := range filters {
		if group, filter, err := splitShared(f.Name); err == nil && group == "" && s.srv.hub.Settle(ctx, filter) != nil {
			return false
		}
	}
	return true
}

// catch takes a message that was read from the log, once there is room for it. It
// reports false when the connection is over.
func (s *session) catch(c *conn, b *engine.Batch, m *engine.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	qos, retain, ids, ok := s.wants(m)
	q := queued{qos: qos, retain: retain, ids: ids}
	if ok && qos > 0 {
		q.kept = m.Keep()
		for !s.queue.push(q, s.srv.limits.Queue, s.srv.limits.QueueBytes) {
			s.mu.Unlock()
			select {
			case <-s.room:
			case <-c.stored.ctx.Done():
			}
			s.mu.Lock()
			if c.stored.ctx.Err() != nil {
				return false
			}
		}
	}
	b.Begin(live.Now())
	if ok && qos == 0 && s.conn != nil {
		s.conn.publish(b, &outgoing{m: m, retain: retain, ids: ids})
	}
	s.next, s.changed = m.Position, true
	s.pump(b)
	s.mu.Unlock()
	b.End()
	s.mu.Lock()
	return s.conn == c
}

// keepSaved stores the session when something waits for that, and every saveEvery if it
// has changed.
func (s *session) keepSaved(c *conn) {
	b := s.srv.hub.NewBatch()
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-c.stored.ctx.Done():
			return
		case <-s.dirty:
		case <-ticker.C:
			s.mu.Lock()
			changed := s.changed || n%idleSaves == 0 && s.next < s.srv.plane.Position()
			s.mu.Unlock()
			if !changed {
				continue
			}
		}
		cut, err := s.saveTo(time.Time{})
		if errors.Is(err, packets.ErrSessionTakenOver) { // this node did not hear of it
			s.srv.serving.Go(func() { c.Kick(packets.ErrSessionTakenOver) })
			return
		}
		if err != nil {
			s.mu.Lock()
			s.touch() // it is tried again; what waits goes on waiting
			s.mu.Unlock()
			select {
			case <-c.stored.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		b.Begin(live.Now())
		s.sendSaved(b, cut)
		b.End()
	}
}

// sendSaved sends what waited until it was stored: messages, and PUBREL.
func (s *session) sendSaved(b *engine.Batch, saved snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return
	}
	for _, u := range saved.unsaved {
		at := s.slotOf(u.id)
		if at == nil || !at.unsaved || at.order != u.order || at.released != u.released {
			continue
		}
		at.done() // the session owes it to the client now
		if at.released {
			at.unsaved = false
			s.conn.ack(b, packets.Pubrel, u.id, packets.CodeSuccess)
			continue
		}
		switch s.conn.publish(b, &outgoing{m: &at.kept.Message, qos: at.qos, retain: at.retain, id: u.id, ids: at.ids}) {
		case sent:
			at.unsaved = false
		case never:
			s.complete(u.id)
		case full: // catchUp has it sent when there is room
			s.held = true
			return
		}
	}
}

// snapshot is which slots wait for what was stored.
type snapshot struct{ unsaved []waiting }

type waiting struct {
	id       uint16
	order    uint64
	released bool
}

// save stores the session, if it is one that is. until is when it expires, zero while
// the client is connected.
func (s *session) save(until time.Time) error {
	_, err := s.saveTo(until)
	return err
}

func (s *session) saveTo(until time.Time) (snapshot, error) {
	if !s.durable {
		return snapshot{}, nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	out, in, waits := s.snapshot()
	out.Until, out.Writer, out.Revision = until, s.writer, s.revision
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	var err error
	if out.State, err = json.Marshal(in); err == nil {
		err = s.srv.plane.SaveSession(ctx, s.id, out)
	}
	s.revision = out.Revision
	switch {
	case errors.Is(err, backplane.ErrTaken):
		return waits, packets.ErrSessionTakenOver
	case err != nil:
		s.srv.log.Warn("a session cannot be stored", "error", err)
		return waits, errStore
	}
	return waits, nil
}

// snapshot returns what to store.
func (s *session) snapshot() (*backplane.Session, *stored, snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = false
	in := &stored{Owner: s.owner, Next: s.next, Subscriptions: s.filters, Numbers: map[uint16]numbered{}}
	if !s.reading {
		in.Next = max(in.Next, s.srv.plane.Position())
		s.next = in.Next
	}
	room := maxRetained
	owes := func(q *queued, id uint16) {
		r := retained{q.kept.Topic.Name(), q.qos, id}
		if as, _ := json.Marshal(r); room >= len(as) { // it never fails
			room -= len(as) + 1 // and a comma
			in.Retained = append(in.Retained, r)
		}
	}
	first := true
	for i := range s.queue.n {
		q := &s.queue.ring[(s.queue.first+i)%len(s.queue.ring)]
		switch at := q.kept.Position; {
		case at == 0:
			owes(q, 0)
		case first:
			in.Next, first = min(in.Next, at-1), false
		}
	}
	for id, n := range s.numbers {
		n.Stored = s.inbound[id] == received
		in.Numbers[id] = n
	}
	floor := in.Next
	for _, n := range in.Numbers {
		if !n.Stored { // it may have to be looked for
			floor = min(floor, n.At)
		}
	}
	var waits snapshot
	for i := range s.slots {
		at := &s.slots[i]
		if at.qos == 0 || at.qos == 1 && at.owed != nil { // of a pool, which has it until the client does
			continue
		}
		u := under{ID: uint16(i + 1), QoS: at.qos, Released: at.released}
		if at.unsaved {
			waits.unsaved = append(waits.unsaved, waiting{u.ID, at.order, at.released})
		}
		if at.kept != nil {
			switch u.Position = at.kept.Position; {
			case u.Position > 0:
				floor = min(floor, u.Position-1)
			case u.QoS == 2: // it is not in the log, and cannot be read again; its identifier is free after PUBREL
				u.Released = true
			default:
				owes(&at.queued, u.ID)
				continue
			}
		}
		in.Under = append(in.Under, u)
	}
	slices.SortFunc(in.Under, func(a, b under) int { return int(int64(s.slots[a.ID-1].order) - int64(s.slots[b.ID-1].order)) })
	slices.SortFunc(waits.unsaved, func(a, b waiting) int { return int(int64(a.order) - int64(b.order)) })
	out := &backplane.Session{Floor: floor, Expiry: s.expiry}
	for _, f := range s.filters {
		if group, filter, err := splitShared(f.Name); err == nil && group != "" {
			out.Groups = append(out.Groups, backplane.GroupOf(group, filter))
		}
	}
	return out, in, waits
}

// keepSubscriptions stores what the client subscribes to, after a change.
func (s *session) keepSubscriptions(c *conn) error {
	if !s.durable {
		return nil
	}
	c.batch.End()
	at := s.srv.plane.Offered()
	s.mu.Lock()
	had := map[string]subscribed{}
	for _, f := range s.filters {
		had[f.Name] = f
	}
	s.filters = make([]subscribed, 0, len(s.subs)) // what was stored before is not changed
	for name, sub := range s.subs {
		f := subscribed{Name: name, QoS: sub.QoS, NoLocal: sub.NoLocal, AsPublished: sub.AsPublished, ID: sub.ID, Since: at}
		if old, ok := had[name]; ok {
			f.Since = old.Since
		}
		s.filters = append(s.filters, f)
	}
	slices.SortFunc(s.filters, func(a, b subscribed) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	s.mu.Unlock()
	return c.saved()
}

// number gives a message of QoS 2 from the client the number under which the log takes it once, and stores that, unless it
// has one from before its node died. It reports true if the log has the message since then, and acknowledges it.
func (s *session) number(c *conn, id uint16, topic []byte) (stored bool, err error) {
	if !s.durable {
		return false, nil
	}
	c.batch.End() // what came before it need not wait
	s.mu.Lock()
	n, again := s.numbers[id]
	if !again {
		n = numbered{At: s.srv.plane.Offered(), Since: time.Now()}
		n.Origin, n.Count = s.srv.plane.Number()
		s.numbers[id] = n
	}
	s.mu.Unlock()
	switch {
	case !again:
		return false, c.saved()
	case time.Since(n.Since) < s.srv.plane.OnceFor()/2: // by the clock of another node, perhaps
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	stored, n.At, err = s.srv.plane.Has(ctx, string(topic), n.At, n.Origin, n.Count)
	c.alive(time.Now()) // however long that took
	if err != nil {
		s.srv.log.Warn("the log cannot be searched", "error", err)
		s.mu.Lock()
		s.numbers[id] = n // the search goes on there when the client is back: a topic may have more than can be read in storeTime
		s.mu.Unlock()
		return false, errStore
	}
	if stored {
		c.acknowledge(2, id, packets.CodeSuccess)
	}
	return stored, nil
}

// sign says in a message of the client who sent it, and its number.
func (s *session) sign(m *engine.Message, id uint16) {
	if s.srv.plane == nil {
		return
	}
	m.Sender = s.sender
	if m.QoS == 2 && s.durable {
		s.mu.Lock()
		m.Origin, m.Number = s.numbers[id].Origin, s.numbers[id].Count
		s.mu.Unlock()
	}
}

// Refused tells the client that a message which was taken to wait is not stored: in MQTT 5
// by a reason code, in 3.1.1, which has none, by closing the connection.
func (s *session) Refused(b *engine.Batch, m *engine.Message, id uint16, err error) {
	code := packets.ErrQuotaExceeded
	if errors.Is(err, backplane.ErrNotStored) {
		code = packets.ErrImplementationSpecificError
	}
	s.srv.refused.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conn
	if c != nil && c.version == v311 {
		delete(s.inbound, id)
		delete(s.numbers, id)
		s.srv.serving.Go(func() { c.Kick(code) })
		return
	}
	s.acknowledge(b, m.QoS, id, code)
}

// suspend ends what the connection runs for its session, and stores that once more, or
// forgets it if it ends with the connection.
func (c *conn) suspend() {
	s, p := c.session, c.srv.plane
	if p == nil || s == nil {
		return
	}
	s.mu.Lock()
	c.stored.over = true
	expiry := s.expiry
	s.mu.Unlock()
	if s.durable {
		c.stored.cancel()
		c.stored.running.Wait()
	}
	s.part()
	if s.durable {
		if expiry > 0 {
			_ = s.save(time.Now().Add(expiry)) // what was stored before is older, and right
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), storeTime)
			_ = p.DeleteSession(ctx, s.id, s.revision) // if not, it expires
			cancel()
		}
	}
	p.Disclaim(s.id)
}
