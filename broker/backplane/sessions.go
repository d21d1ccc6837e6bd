package backplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/follow"
)

// Session is what is kept of a client's session, whatever node it is at.
type Session struct {
	// Node is where the client was last.
	Node string `json:"node"`
	// Floor is the position in the log up to which the client needs nothing any more.
	Floor uint64 `json:"floor"`
	// Until is when the session expires unless the client comes back; zero while it is
	// connected.
	Until time.Time `json:"until"`
	// Expiry is how long the session lives without a connection.
	Expiry time.Duration `json:"expiry"`
	// Groups are the shared subscriptions that the client is a member of, by GroupOf.
	Groups []string `json:"groups,omitempty"`
	// State is the session's, as its protocol has it.
	State json.RawMessage `json:"state,omitempty"`
	// Writer names the connection that stored it, another one for each connection.
	Writer string `json:"writer,omitempty"`
	// Revision is that of what is stored, 0 if nothing is. SaveSession stores over it alone.
	Revision uint64 `json:"-"`
}

// Known reports whether a client has a session that is stored, as far as this node has
// heard.
func (p *Plane) Known(client string) bool {
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	_, ok := p.sessions.all[keyOf(client)]
	return ok
}

// Sessions returns how many sessions are stored, as far as this node has heard.
func (p *Plane) Sessions() int {
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	return len(p.sessions.all)
}

// maxSession is the largest session that is stored, in bytes. Larger ones, of thousands
// of subscriptions, are refused.
const maxSession = 512 << 10

// sessions is what this node knows of the sessions of all nodes: how far the log must
// be kept.
type sessions struct {
	mu  sync.Mutex
	all map[string]known
	// revision is that of the last change that this node has heard of.
	revision uint64
	// kick is told of a client that connects to another node.
	kick func(client, owner string) bool
	subs map[string]*nats.Subscription // by client
	// adrift is since when sessions are known, by key, whose client has left this node without that being stored.
	adrift map[string]time.Time
}

type known struct {
	Session
	stored time.Time
}

// LoadSession returns a client's session, nil if there is none.
func (p *Plane) LoadSession(ctx context.Context, client string) (*Session, error) {
	s, err := p.read(ctx, client)
	if err != nil || s == nil || s.expired() {
		return nil, err
	}
	return s, nil
}

// expired reports whether nobody came back in time.
func (s *Session) expired() bool { return !s.Until.IsZero() && time.Now().After(s.Until) }

// read returns what is stored of a client's session, nil if nothing is.
func (p *Plane) read(ctx context.Context, client string) (*Session, error) {
	var e jetstream.KeyValueEntry
	err := p.ask(ctx, func(ctx context.Context) (err error) {
		e, err = p.kv.Get(ctx, keyOf(client))
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("backplane: the session of %q: %w", client, err)
	}
	s := &Session{}
	if err := json.Unmarshal(e.Value(), s); err != nil {
		return nil, fmt.Errorf("backplane: the session of %q: %w", client, err)
	}
	s.Revision = e.Revision()
	return s, nil
}

// ErrTaken is of a session that another connection has stored since, at another node as a rule.
var ErrTaken = errors.New("backplane: another connection has the session")

// SaveSession stores a client's session in place of s.Revision, and sets that to what is
// stored then. It returns when a majority has it. It is ErrTaken where a connection other
// than s.Writer has stored the session since, or it was deleted.
func (p *Plane) SaveSession(ctx context.Context, client string, s *Session) error {
	s.Node = p.cfg.Node
	data, err := json.Marshal(s)
	if err == nil && len(data) > maxSession {
		err = fmt.Errorf("%d bytes, expected at most %d", len(data), maxSession)
	}
	for err == nil {
		var stored uint64
		if stored, err = p.write(ctx, client, data, s.Revision); err == nil {
			s.Revision = stored
			return nil
		}
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists) {
			if stored, err = p.written(ctx, client, s); err == nil {
				s.Revision = stored
			}
		}
	}
	return fmt.Errorf("backplane: the session of %q: %w", client, err)
}

// write stores data in place of a revision.
func (p *Plane) write(ctx context.Context, client string, data []byte, revision uint64) (stored uint64, err error) {
	err = p.ask(ctx, func(ctx context.Context) (err error) {
		if revision == 0 {
			stored, err = p.kv.Create(ctx, keyOf(client), data)
		} else {
			stored, err = p.kv.Update(ctx, keyOf(client), data, revision)
		}
		return err
	})
	return stored, err
}

// written returns the revision of what is stored where it is not the one that s expects: an
// attempt to store s, of which no answer came, may have succeeded. It is ErrTaken if somebody else stored.
func (p *Plane) written(ctx context.Context, client string, s *Session) (uint64, error) {
	now, err := p.read(ctx, client)
	switch {
	case err != nil:
		return 0, err
	case now == nil && s.Revision == 0: // it was deleted just now
		return 0, nil
	case now == nil || now.Writer != s.Writer && !(s.Revision == 0 && now.expired()):
		return 0, ErrTaken
	}
	return now.Revision, nil
}

// DeleteSession forgets a client's session, if its revision is still that one.
func (p *Plane) DeleteSession(ctx context.Context, client string, revision uint64) error {
	if err := p.ask(ctx, func(ctx context.Context) error {
		return p.kv.Purge(ctx, keyOf(client), jetstream.LastRevision(revision), jetstream.PurgeTTL(goneFor))
	}); err != nil {
		return fmt.Errorf("backplane: the session of %q: %w", client, err)
	}
	return nil
}

// keyOf is a client as a key of KV, which knows few characters.
func keyOf(client string) string {
	to := make([]byte, 0, 2*len(client))
	for i := range len(client) {
		switch c := client[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
			to = append(to, c)
		default:
			to = append(to, '=', hex[c>>4], hex[c&15])
		}
	}
	return string(to)
}

// claimTime bounds how long another node may take to give a client up.
const claimTime = 3 * time.Second

// ErrOwned is of a client that is connected to another node as another user.
var ErrOwned = errors.New("backplane: the client is another user's")

// notYours is the answer of a node that does not give a client up.
var notYours = []byte{1}

// askHeader is on a message that only asks whether a client is connected, as the user in it.
const askHeader = "Spillgate-Connected"

// Connected reports whether a client is connected to any node, as far as that can be found out: true without an answer.
func (p *Plane) Connected(ctx context.Context, client string) bool {
	p.sessions.mu.Lock()
	here := p.sessions.subs[client] != nil
	p.sessions.mu.Unlock()
	if here {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	_, err := p.inquire(ctx, client, "")
	return !errors.Is(err, nats.ErrNoResponders)
}

// Taken reports whether a client is connected to a node as another user than owner, or an error where that cannot be found out until
// ctx ends.
func (p *Plane) Taken(ctx context.Context, client, owner string) (bool, error) {
	answer, err := p.inquire(ctx, client, owner)
	if errors.Is(err, nats.ErrNoResponders) {
		return false, nil
	}
	return err == nil && bytes.Equal(answer.Data, notYours), err
}

// inquire asks the node that a client is connected to whether it is there as owner, and changes nothing.
func (p *Plane) inquire(ctx context.Context, client, owner string) (*nats.Msg, error) {
	m := nats.NewMsg(sessionSubjects + token(client))
	m.Header.Set(askHeader, "?")
	m.Data = []byte(owner)
	return p.nc.RequestMsgWithContext(ctx, m)
}

// Claim has the node that a client is connected to, if that is another one, disconnect it,
// and this node be told by kick when it connects elsewhere. It is ErrOwned where that
// connection is not of the same owner, and then nothing has changed.
func (p *Plane) Claim(ctx context.Context, client, owner string) error {
	subject := sessionSubjects + token(client)
	if p.nc.ConnectedUrl() == "" && !p.nc.IsConnected() {
		return fmt.Errorf("backplane: NATS is not connected")
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	// No answer within the time: the node is dead, or as good as that.
	answer, err := p.nc.RequestWithContext(ctx, subject, []byte(owner))
	switch {
	case err != nil && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("backplane: %w", err)
	case err == nil && bytes.Equal(answer.Data, notYours):
		return ErrOwned
	}
	sub, err := p.nc.Subscribe(subject, func(m *nats.Msg) {
		var answer []byte
		if m.Header.Get(askHeader) != "" {
			if string(m.Data) != owner {
				answer = notYours
			}
			_ = m.Respond(answer)
			return
		}
		go func() { // it waits until the connection has ended
			if !p.sessions.kick(client, string(m.Data)) {
				answer = notYours
			}
			_ = m.Respond(answer)
		}()
	})
	if err != nil {
		return fmt.Errorf("backplane: %w", err)
	}
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	if p.sessions.subs == nil {
		p.sessions.subs = map[string]*nats.Subscription{}
	}
	if old := p.sessions.subs[client]; old != nil {
		_ = old.Unsubscribe()
	}
	p.sessions.subs[client] = sub
	return nil
}

// Disclaim ends Claim.
func (p *Plane) Disclaim(client string) {
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	if sub := p.sessions.subs[client]; sub != nil {
		_ = sub.Unsubscribe()
		delete(p.sessions.subs, client)
	}
}

// OnKick says what Claim by another node does here: kick reports false for a client that
// is connected as another user than owner, and does nothing then. It must be called
// before Open.
func (p *Plane) OnKick(kick func(client, owner string) bool) { p.sessions.kick = kick }

// heard notes that this node has heard of all changes up to a position: the last ones may be of sessions that are forgotten.
func (s *sessions) heard(position uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = max(s.revision, position)
}

// deletedHeader is on a value of KV that was deleted.
const deletedHeader = "KV-Operation"

// knows takes a change of a session or a will, which a node of the cluster has stored.
func (p *Plane) knows(m *follow.Message) {
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	p.sessions.revision = m.Position
	key := strings.TrimPrefix(m.Subject(), bucketSubjects+sessionBucket+".")
	if willKey(key) {
		p.knowsWill(key, m)
		return
	}
	var s Session
	if m.Headers().Get(deletedHeader) != "" || json.Unmarshal(m.Data(), &s) != nil { // it was deleted
		delete(p.sessions.all, key)
		return
	}
	s.State, s.Revision = nil, m.Position
	p.sessions.all[key] = known{s, m.Stored}
}
