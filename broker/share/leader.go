package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

const (
	leaderBucket = "spillgate-leader"
	leaderKey    = "leader"
	// leaseSteps is for how many steps a renewal lasts.
	leaseSteps = 4
)

// leader decides on the shares of all nodes while this node leads. Everything but
// campaign runs on the node's goroutine.
type leader struct {
	n  *Node
	kv jetstream.KeyValue

	changes chan *change // of the state, to be made
	made    chan *change

	mu   sync.Mutex
	term uint64 // 0: another node leads
	good mono.Time
	was  string // the node that led before

	leads   uint64 // the term that what follows is of
	lapsed  bool   // it did not lead for sure at the last step
	since   mono.Time
	reports map[string]report // of the term, by node
	heard   map[string]mono.Time
	fell    map[string]bool      // nodes that have fallen back for sure
	absent  map[string]mono.Time // when NATS said last that a node is connected nowhere
	topics  map[string]*shared
	counted *place.State                  // that shares is of, which looks at every publisher
	shares  map[string]map[string]float64 // by topic and node
	soon    bool                          // a topic has come to a node that has no grant of it, or a node has given its part up
	mover   *mover
}

// shared is a topic that the leader divides.
type shared struct {
	whole   placement.Bucket
	members []string
	adaptor *placement.Adaptor
	// obey is how many nodes had said that they obey something when adaptor began, and told are those whose grants it knows: these, and
	// all that were sent some since.
	obey int
	told map[string]bool
}

// unheard is the member of a topic that stands for all nodes which may obey something and have not told this leader: what the others
// leave of the bucket is theirs, until all have told or that has expired.
const unheard = ""

func (l *leader) open(ctx context.Context, n *Node) (err error) {
	l.n, l.changes, l.made = n, make(chan *change, maxChanges), make(chan *change, maxChanges)
	js, err := jetstream.New(n.nc)
	if err != nil {
		return fmt.Errorf("share: %w", err)
	}
	l.kv, err = place.Bucket(ctx, js, jetstream.KeyValueConfig{Bucket: leaderBucket, Storage: jetstream.FileStorage, Replicas: max(n.cfg.Replicas, 1)})
	if err != nil {
		return fmt.Errorf("share: who leads: %w", err)
	}
	return nil
}

func (l *leader) stepTime() time.Duration { return l.n.cfg.Window / steps }

// lookTime bounds how long it may take to find out who leads, or to begin to.
func (l *leader) lookTime() time.Duration { return max(l.stepTime(), time.Second/leaseSteps) }

// campaign begins to lead if no node leads: if the key was not renewed for leaseSteps steps. A key that nobody answers for is taken all the same
// then, which fails if it was renewed unseen. An attempt is short: where a server is stopped it waits for that one, while the others have found
// another leader of the key.
func (l *leader) campaign(ctx context.Context) {
	var revision, seen uint64
	var by string // who led when seen was stored
	tried, answered := false, true
	at := live.Now()
	for ctx.Err() == nil {
		began := live.Now()
		try, cancel := context.WithTimeout(ctx, max(leaseSteps*l.stepTime(), time.Second))
		look, end := context.WithTimeout(try, l.lookTime())
		if revision > 0 { // it leads, or did until nobody answered
			if revision, answered = l.renew(try, revision); revision == 0 {
				l.end()
			} else if answered {
				l.goOn(began)
			}
		} else {
			e, err := l.kv.Get(look, leaderKey)
			switch {
			case errors.Is(err, jetstream.ErrKeyNotFound):
				if r, err := l.kv.Create(try, leaderKey, []byte(l.n.cfg.Node)); err == nil {
					revision = r
					l.begin(r, began, "")
				}
			case err == nil && e.Revision() != seen && tried && string(e.Value()) == l.n.cfg.Node:
				seen = e.Revision() // by an attempt that had no answer, so that nobody leads by it
			case err == nil && e.Revision() != seen:
				seen, by, at, tried = e.Revision(), string(e.Value()), live.Now(), false
			case seen > 0 && live.Now().Sub(at) > leaseSteps*l.stepTime():
				end()
				look, end = context.WithTimeout(try, l.lookTime())
				asked := live.Now()
				tried = true
				if r, err := l.kv.Update(look, leaderKey, []byte(l.n.cfg.Node), seen); err == nil {
					revision, tried = r, false
					l.begin(r, asked, by)
				}
			}
		}
		end()
		cancel()
		if revision == 0 || answered { // else others try for the key by now
			pause(ctx, l.stepTime())
		}
	}
	if revision > 0 && l.n.leaving() { // another one need not wait until this one has not renewed the key for long
		l.end()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.lookTime())
		defer cancel()
		_ = l.kv.Delete(last, leaderKey, jetstream.LastRevision(revision))
	}
}

// renew renews the key, and returns its revision, 0 if another one has taken its place. It reports false where nobody answers: as long as nobody
// else has the key, the term goes on then, with all that this node has heard.
func (l *leader) renew(ctx context.Context, revision uint64) (now uint64, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, l.lookTime())
	defer cancel()
	next, err := l.kv.Update(ctx, leaderKey, []byte(l.n.cfg.Node), revision)
	switch {
	case err == nil:
		return next, true
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, true
	}
	l.n.log.Debug("who leads is not known", "error", err)
	pause(ctx, l.stepTime()/10) // NATS may say at once that nobody answers
	return revision, false
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// begin notes a new term, which was asked for at an instant, after that of another node.
func (l *leader) begin(term uint64, asked mono.Time, was string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.good, l.was = term, asked, was
	l.n.log.Info("this node leads: it divides the topics' buckets", "term", term)
}

// goOn notes that the term goes on, which was asked for at an instant.
func (l *leader) goOn(asked mono.Time) { l.mu.Lock(); defer l.mu.Unlock(); l.good = asked }

// end notes that the term may be over.
func (l *leader) end() { l.mu.Lock(); defer l.mu.Unlock(); l.term, l.good = 0, 0 }

// until returns until when this node leads for sure, if it does.
func (l *leader) until() mono.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.good.Add(leaseSteps * l.stepTime())
}

// former returns the node that led before this one.
func (l *leader) former() string { l.mu.Lock(); defer l.mu.Unlock(); return l.was }

// leading returns the term, 0 if this node does not lead for sure.
func (l *leader) leading(now mono.Time) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.good) >= leaseSteps*l.stepTime() {
		return 0
	}
	return l.term
}

// reported takes a report of any node.
func (l *leader) reported(now mono.Time, data []byte) {
	if l.leads == 0 {
		return
	}
	r, err := decodeReport(data)
	if err != nil {
		l.n.log.Debug("a report cannot be read", "error", err)
		return
	}
	if r.Term != l.leads { // it may obey an earlier term, until it hears of this one
		return
	}
	l.reports[r.Node], l.heard[r.Node] = r, now
	delete(l.absent, r.Node)
	l.mover.reported(r)
	l.soon = l.soon || r.Leaving
	for _, o := range r.Topics {
		l.soon = l.soon || o.Fresh && o.Span == 0
		s := l.topics[o.Topic]
		if s == nil {
			continue
		}
		if i := slices.Index(s.members, r.Node); i >= 0 {
			l.soon = l.soon || o.Rate == 0
			// Of an earlier time at the topic, which this leader may know nothing of, the node knows versions that it obeys no more.
			if had := s.adaptor.Grant(i).Version; o.Version > had || o.Fresh && o.Version == had {
				s.adaptor.Renew(i, o.Version)
			}
			s.adaptor.Report(now, i, placement.Report{Messages: o.Messages, Span: o.Span, Backlog: o.Backlog, Waiting: o.Waiting, Version: o.Version})
		}
	}
}

// step decides, and tells every node.
func (l *leader) step(now mono.Time) {
	l.soon = false
	term := l.leading(now)
	if term == 0 { // what is known counts if the term goes on
		l.lapsed = true
		return
	}
	if term == l.leads && l.lapsed {
		l.mover.goOn(now)
	}
	l.lapsed = false
	if term != l.leads {
		l.leads, l.since = term, now
		l.reports, l.heard, l.topics = map[string]report{}, map[string]mono.Time{}, map[string]*shared{}
		l.absent = map[string]mono.Time{}
		l.mover = newMover(l, now)
	}
	l.n.mu.Lock()
	state := l.n.state
	l.n.mu.Unlock()
	l.forget(now, state)
	fell := map[string]bool{}
	for node := range state.Nodes {
		if fell[node] = l.n.witness.fallen(now, l.since, l.former(), node, l.heard[node], l.reports[node].Process); fell[node] && !l.fell[node] {
			l.n.log.Info("a node is not heard and obeys no grants", "node", node)
		}
	}
	l.fell = fell
	known := l.known(now, slices.Collect(maps.Keys(state.Nodes)))
	if l.counted != state {
		l.counted, l.shares = state, map[string]map[string]float64{}
		for topic := range state.Topics {
			l.shares[topic] = sharesOf(state, topic)
		}
	}
	for topic, t := range state.Topics {
		l.divide(now, topic, placement.Bucket{Rate: t.Rate, Burst: t.Burst}, l.shares[topic], known)
	}
	l.mover.step(now, state)
	for topic, s := range l.topics {
		if state.Topics[topic] == nil {
			delete(l.topics, topic)
			continue
		}
		for i, node := range s.members {
			if l.fell[node] {
				s.adaptor.Fell(i)
			}
		}
		s.adaptor.Step(now)
	}
	for node := range state.Nodes {
		l.tell(now, node, term)
	}
}

// forget leaves the parts of nodes that were removed to others, floors included, once they have been silent until their grants were over.
func (l *leader) forget(now mono.Time, state *place.State) {
	for node, heard := range l.heard {
		if _, known := state.Nodes[node]; !known && now.Sub(heard) > 2*l.n.cfg.Window+2*l.stepTime() {
			delete(l.heard, node)
			delete(l.reports, node)
		}
	}
}

// known reports whether it is known what every node obeys: it has said so in this term,
// or what it obeyed is over.
func (l *leader) known(now mono.Time, nodes []string) bool {
	if now >= l.expired() {
		return true
	}
	for _, node := range nodes {
		if _, ok := l.reports[node]; !ok && !l.fell[node] {
			return false
		}
	}
	return true
}

// expired is when nothing counts any more that an earlier leader has granted.
func (l *leader) expired() mono.Time { return l.since.Add(2*l.n.cfg.Window + 2*l.stepTime()) }

// sharesOf returns the share of a topic's publishers, by their rates, of each node that holds some. While no node does, all is its
// keeper's: what comes from others, which have no place, needs a token, too.
func sharesOf(s *place.State, topic string) map[string]float64 {
	shares := map[string]float64{}
	parts, _, err := s.Parts(topic)
	if err != nil {
		return shares
	}
	for _, p := range parts {
		shares[p.Node] = p.Rate / s.Topics[topic].Rate
	}
	if keeper := s.Keeper(topic); len(shares) == 0 && keeper != "" {
		shares[keeper] = 1
	}
	return shares
}

// divide has the right nodes share a topic, by their shares of its publishers. Its adaptor begins anew when they change,
// with what each may obey. While it is not known what every node obeys, those that have told keep that, and have no more together.
func (l *leader) divide(now mono.Time, topic string, whole placement.Bucket, shares map[string]float64, known bool) {
	s := l.topics[topic]
	members := slices.Sorted(maps.Keys(shares))
	granted := whole.Split(1 - reserve)
	granted.Burst = max(granted.Burst, 1) // the least that an Adaptor divides
	obey, rest := map[string]obeyed{}, granted
	for node, r := range l.reports {
		for _, o := range r.Topics {
			if o.Topic == topic && o.Rate > 0 {
				obey[node] = o
				rest.Rate, rest.Burst = rest.Rate-o.Rate, rest.Burst-o.Burst
				fresh := o.Fresh && (s == nil || !slices.Contains(s.members, node)) // it has some of the reserve, and this node does not know yet why
				if !fresh && !slices.Contains(members, node) {                      // it has something still
					members = append(members, node)
				}
			}
		}
	}
	if s != nil {
		for _, node := range s.members {
			if _, told := l.reports[node]; l.fell[node] && !told && !slices.Contains(members, node) { // it may live, and have its floor
				members = append(members, node)
			}
		}
	}
	if !known {
		members = append(members, unheard)
	}
	slices.Sort(members)
	if len(shares) == 0 || s != nil && slices.Equal(s.members, members) && s.whole == whole && (known || s.obey == len(obey)) {
		return
	}
	adaptor, err := placement.NewAdaptor(now-1, placement.AdaptorConfig{Bucket: granted, Brokers: len(members), Window: l.n.cfg.Window, Steps: steps})
	if err != nil {
		l.n.log.Debug("a topic is not divided", "topic", topic, "error", err)
		return
	}
	told := map[string]bool{}
	for i, node := range members {
		if node == unheard {
			adaptor.Adopt(i, placement.Bucket{Rate: max(0, rest.Rate), Burst: max(0, rest.Burst)}, 0, l.expired())
			continue
		}
		o := obey[node]
		use, version, expires := o.bucket(), o.Version, l.heard[node].Add(o.Left)
		told[node] = o.Rate > 0
		if was, ok := s.member(node); ok {
			use = s.adaptor.Use(was)
			version, expires = s.adaptor.Grant(was).Version, s.adaptor.Grant(was).Expires
			told[node] = true
		} else if _, said := l.reports[node]; l.fell[node] && !said { // Fell leaves it the floor of that
			use = placement.Bucket{Rate: max(0, rest.Rate), Burst: max(0, rest.Burst)}
		}
		adaptor.Adopt(i, use, version, max(expires, now.Add(2*l.n.cfg.Window)))
		if !known && o.Fresh {
			adaptor.Expect(i, shares[node])
		}
	}
	if known {
		expect(adaptor, members, shares, obey)
	}
	l.topics[topic] = &shared{whole, members, adaptor, len(obey), told}
}

// member returns the number of a node whose grants the adaptor knows. s may be nil.
func (s *shared) member(node string) (i int, ok bool) {
	if s == nil {
		return 0, false
	}
	i = slices.Index(s.members, node)
	return i, i >= 0 && (s.told[node] || !slices.Contains(s.members, unheard))
}

// expect has those that have just got their first publishers begin with their share of these, and the others divide the rest as they
// do already. Else what nobody has used yet would stay where it was, and a node with new publishers would
// wait for a decision when they begin to send.
func expect(a *placement.Adaptor, members []string, shares map[string]float64, obey map[string]obeyed) {
	fresh := func(node string) bool { o, told := obey[node]; return !told || o.Fresh }
	left, had := 1.0, 0.0
	for _, node := range members {
		if fresh(node) {
			left -= shares[node]
		} else {
			had += obey[node].Rate
		}
	}
	for i, node := range members {
		if fresh(node) {
			a.Expect(i, shares[node])
		} else {
			a.Expect(i, max(0, left)*obey[node].Rate/had)
		}
	}
}

// tell sends a node its grants.
func (l *leader) tell(now mono.Time, node string, term uint64) {
	r, heard := l.reports[node]
	g := grants{Term: term, Process: r.Process, At: r.At}
	for topic, s := range l.topics {
		i := slices.Index(s.members, node)
		if i < 0 || !heard { // it hears of the term, and reports
			continue
		}
		s.told[node] = true
		to := s.adaptor.Grant(i)
		g.Grants = append(g.Grants, grant{Topic: topic, Version: to.Version, Rate: to.Rate, Burst: to.Burst,
			Lasts: max(to.Expires.Sub(l.heard[node]), 0), FloorRate: to.Floor.Rate, FloorBurst: to.Floor.Burst})
	}
	data, err := json.Marshal(g)
	if err == nil {
		err = l.n.nc.PublishRequest(grantSubjects+node, l.n.absentSubject()+node, data)
	}
	if err != nil {
		l.n.log.Debug("no grants", "node", node, "term", strconv.FormatUint(term, 10), "error", err)
	}
}

// absentSubject is where NATS answers in place of nodes that are connected nowhere, before their names.
func (n *Node) absentSubject() string {
	return absentSubjects + strconv.FormatUint(n.process, 36) + "."
}

// isAbsent takes such an answer.
func (l *leader) isAbsent(now mono.Time, node string, m *nats.Msg) {
	if l.leads != 0 && m.Header.Get("Status") == "503" {
		l.absent[node] = now
	}
}

// dead reports whether a node has fallen back and is connected nowhere, by what NATS said a moment ago.
func (l *leader) dead(now mono.Time, node string) bool {
	said, ok := l.absent[node]
	return ok && l.fell[node] && now.Sub(said) < 2*l.stepTime()
}
