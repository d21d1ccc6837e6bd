package backplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/spillgate/spillgate/broker/follow"
)

// The will of a client that is connected is stored, so that it outlives the node:
//
//	node of the client  KeepWill ─▶ bucket of sessions ─▶ all nodes
//	                    alive:   that node publishes it, or not, and drops it
//	                    silent for willSilence: each other node publishes it, under one number, and drops it
//
// Between a node that publishes and what it drops, another one may publish the same will again. Messages of QoS 1 and 2 the log takes
// once for that reason; one of QoS 0 is published by the node that could drop it.
//
// A node that the others cannot hear is silent to them, though its clients are connected to it. Their wills are published then, once.

// Will is what is kept of a client's will.
type Will struct {
	Client string `json:"client"`
	// Process is the one that the client is connected to, another one after a restart of its node.
	Process uint64 `json:"process"`
	// Connection is as Session.Writer.
	Connection string `json:"connection"`
	// Delay is from the end of the connection until it is to be published.
	Delay time.Duration `json:"delay,omitempty"`
	// State is the message, as the client's protocol has it.
	State json.RawMessage `json:"state,omitempty"`
	// Revision is that of what is stored.
	Revision uint64 `json:"-"`
}

// wills is what this node knows of the wills of all nodes.
type wills struct {
	mu    sync.Mutex
	all   map[string]Will   // by key, without their State
	here  map[string]string // the connection whose will this process takes care of, by key
	begun map[string]uint64 // the revisions that this process is publishing though their node is gone, by key
	drops map[string]Will   // to be dropped, by key
	more  chan struct{}     // has one element while there may be some
	later chan struct{}     // has an element for each that is being stored later
	// due is told of a will whose node is gone. It reports whether it takes care of that, and calls Drop or Undue then.
	due func(ctx context.Context, w *Will) bool
	// silent is since when processes have not answered; of the goroutine that watches.
	silent map[uint64]time.Time
}

const (
	// willKeys begins the keys of wills in the bucket of sessions, whose own have no dots.
	willKeys = "will."
	// willsEvery is how often it is asked whether the processes of wills are there, and willSilence for how long one must not
	// have answered until its wills are due: longer than NATS takes to connect its nodes anew.
	willsEvery, willSilence = 2 * time.Second, 10 * time.Second
	// aliveTime bounds how long a process may take to answer.
	aliveTime = time.Second
	// willGoneFor is how long it is kept that a will was dropped: clients may have another name each time. A node that does not hear of it
	// finds out when it reads the will.
	willGoneFor = time.Minute
	// willsAtOnce is how many wills are read, published, dropped or stored later at once: each takes a round trip. After willsInTurn of a process it is
	// asked again whether that is there, which may take aliveTime.
	willsAtOnce, willsInTurn = 16, 256
	// willFormat begins what is stored of a will. A node that knows no wills would take one without it for a session, which needs the whole
	// log and has expired.
	willFormat = "will 1 "
)

// OnWill says what becomes of a will whose node is gone: due publishes it, and calls DropWill when it is safe, or UndueWill when it cannot
// be; it reports false where it did neither and never will. Several goroutines call it at once. It must be called before Open.
func (p *Plane) OnWill(due func(ctx context.Context, w *Will) bool) { p.wills.due = due }

// HasWill reports whether a will of a client is kept, as far as this node has heard.
func (p *Plane) HasWill(client string) bool {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	_, ok := p.wills.all[willKeys+keyOf(client)]
	return ok
}

// KeepWill stores the will of a client that is connected to this node, in place of what is stored, or takes that away where state is nil.
// It returns the one before, if there is one of a process that is gone: the caller publishes it, unless its client is back in time.
// A will that is not stored when ctx ends is an error, and is stored later, unless it is forgotten before.
func (p *Plane) KeepWill(ctx context.Context, client, connection string, delay time.Duration, state json.RawMessage) (before *Will, err error) {
	key := willKeys + keyOf(client)
	w := &Will{Client: client, Process: p.origin, Connection: connection, Delay: delay, State: state}
	data, err := w.stored()
	if err == nil && len(data) > maxSession {
		err = fmt.Errorf("%d bytes, expected at most %d", len(data), maxSession)
	}
	if err == nil && state != nil {
		p.wills.mu.Lock()
		p.wills.here[key] = connection
		p.wills.mu.Unlock()
	}
	if err == nil {
		before, err = p.storeWill(ctx, key, w, data, false)
		if err != nil && state != nil {
			p.wills.mu.Lock()
			if p.ctx.Err() == nil { // Close waits for all that began before
				p.done.Go(func() { p.storeWillLater(key, w, data) })
			}
			p.wills.mu.Unlock()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("backplane: the will of %q: %w", client, err)
	}
	return before, nil
}

// storeWillLater stores a will of a connection that goes on without it, as soon as that goes.
func (p *Plane) storeWillLater(key string, w *Will, data []byte) {
	pause := askPause
	for p.sleep(pause); p.keepsWill(key, w.Connection); p.sleep(pause) {
		select {
		case p.wills.later <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(p.ctx, ackTime)
		_, err := p.storeWill(ctx, key, w, data, true)
		cancel()
		<-p.wills.later
		switch {
		case err == nil, errors.Is(err, errForgotten):
			return
		case leaderless(err), errors.Is(err, errLeft):
			pause = askPause
		default: // such as a full disk
			pause = 5 * p.willsEvery
			p.log.Debug("a will is not stored yet", "client", w.Client, "error", err)
		}
	}
}

// keepsWill reports whether this node is to keep the will of a connection, and has not ended.
func (p *Plane) keepsWill(key, connection string) bool {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	return p.wills.here[key] == connection && p.ctx.Err() == nil
}

var (
	// errLeft is of a will that is to be published before another one of its client is stored later.
	errLeft = errors.New("a node that is gone has left one")
	// errForgotten is of a will that is not to be stored any more.
	errForgotten = errors.New("it is forgotten")
)

// storeWill tries to store w as data, or to take away what is stored where it has no State, until ctx ends. Later, nobody publishes the one
// before.
func (p *Plane) storeWill(ctx context.Context, key string, w *Will, data []byte, later bool) (before *Will, err error) {
	known := p.HasWill(w.Client)
	store := func(do func(context.Context) error) error {
		return p.ask(ctx, func(ctx context.Context) error {
			if later && !p.keepsWill(key, w.Connection) { // it would take the place of that of a later connection
				return errForgotten
			}
			return do(ctx)
		})
	}
	for {
		before = nil
		if known {
			if before, err = p.loadWill(ctx, key); err != nil {
				return nil, err
			}
			if before != nil && before.Connection == w.Connection { // stored by an attempt without an answer
				return nil, nil
			}
		}
		left := before != nil && before.Process != p.origin && !p.alive(ctx, before.Process)
		switch {
		case left && later:
			return nil, errLeft
		case w.State != nil && before == nil:
			err = store(func(ctx context.Context) (err error) { _, err = p.kv.Create(ctx, key, data); return err })
		case w.State != nil:
			err = store(func(ctx context.Context) (err error) {
				_, err = p.kv.Update(ctx, key, data, before.Revision)
				return err
			})
		case left:
			err = p.purgeWill(ctx, key, before.Revision)
		}
		switch {
		case err == nil && left:
			return before, nil
		case err == nil: // the process before takes care of its own
			return nil, nil
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
			known = true
		default:
			return nil, err
		}
	}
}

// WillTaken reports whether the will of a connection to this node was published elsewhere, as far as this node has heard: nobody could
// hear of this node for a while.
func (p *Plane) WillTaken(client, connection string) bool {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	return p.wills.here[willKeys+keyOf(client)] == taken+connection
}

// taken begins the connection of a will that others have dropped.
const taken = "taken "

// ForgetWill drops the will of a connection to this node, soon: it was published, or is not to be.
func (p *Plane) ForgetWill(client, connection string) {
	key := willKeys + keyOf(client)
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	if here := p.wills.here[key]; here == connection || here == taken+connection {
		delete(p.wills.here, key)
	}
	// Also where this node has not heard of it yet, or the attempt to store it had no answer: watchWills finds it.
	if w, ok := p.wills.all[key]; ok && w.Connection == connection {
		p.drop(w)
	}
}

// DropWill drops a will that due was told of, after it was published.
func (p *Plane) DropWill(w *Will) {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	p.drop(*w)
}

// drop has a will dropped. The lock is held.
func (p *Plane) drop(w Will) {
	w.State = nil
	p.wills.drops[willKeys+keyOf(w.Client)] = w
	select {
	case p.wills.more <- struct{}{}:
	default:
	}
}

// UndueWill says that a will that due was told of could not be published. It is told again.
func (p *Plane) UndueWill(w *Will) {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	delete(p.wills.begun, willKeys+keyOf(w.Client))
}

// TakeWill drops a will that due was told of, and reports whether it is this node that did.
func (p *Plane) TakeWill(ctx context.Context, w *Will) bool {
	return p.purgeWill(ctx, willKeys+keyOf(w.Client), w.Revision) == nil
}

// SettleWills drops what is to be dropped, until ctx ends.
func (p *Plane) SettleWills(ctx context.Context) {
	p.wills.mu.Lock()
	drops := maps.Clone(p.wills.drops)
	p.wills.mu.Unlock()
	dropping, ctx := errgroup.WithContext(ctx)
	dropping.SetLimit(willsAtOnce)
	for key, w := range drops {
		dropping.Go(func() error {
			err := p.purgeWill(ctx, key, w.Revision)
			if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // it is not stored any more
				return err // the rest stays for the next time
			}
			p.wills.mu.Lock()
			defer p.wills.mu.Unlock()
			if p.wills.drops[key].Revision == w.Revision {
				delete(p.wills.drops, key)
			}
			if p.wills.begun[key] == w.Revision {
				delete(p.wills.begun, key)
			}
			return nil
		})
	}
	_ = dropping.Wait()
}

func (p *Plane) purgeWill(ctx context.Context, key string, revision uint64) error {
	return p.ask(ctx, func(ctx context.Context) error {
		return p.kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(willGoneFor))
	})
}

// loadWill returns what is stored, nil if nothing is.
func (p *Plane) loadWill(ctx context.Context, key string) (*Will, error) {
	var e jetstream.KeyValueEntry
	err := p.ask(ctx, func(ctx context.Context) (err error) {
		e, err = p.kv.Get(ctx, key)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return readWill(e.Value(), e.Revision())
}

// stored returns what is stored of a will.
func (w *Will) stored() ([]byte, error) {
	data, err := json.Marshal(w)
	return append([]byte(willFormat), data...), err
}

// readWill reads what is stored.
func readWill(stored []byte, revision uint64) (*Will, error) {
	data, ok := bytes.CutPrefix(stored, []byte(willFormat))
	if !ok {
		return nil, fmt.Errorf("a will that begins with %.20q, expected %q: another version stored it", stored, willFormat)
	}
	w := &Will{}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, err
	}
	w.Revision = revision
	return w, nil
}

// knowsWill takes a change of a will, which a node of the cluster has stored.
func (p *Plane) knowsWill(key string, m *follow.Message) {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	w, err := readWill(m.Data(), m.Position)
	if m.Headers().Get(deletedHeader) != "" || err != nil {
		if old, ok := p.wills.all[key]; ok && p.wills.here[key] == old.Connection {
			p.wills.here[key] = taken + old.Connection
		}
		delete(p.wills.all, key)
		return
	}
	w.State = nil
	p.wills.all[key] = *w
}

// aliveSubject is where a process answers that it is there.
func aliveSubject(process uint64) string { return aliveSubjects + strconv.FormatUint(process, 36) }

// hearAlive answers.
func (p *Plane) hearAlive() error {
	_, err := p.nc.Subscribe(aliveSubject(p.origin), func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		return fmt.Errorf("backplane: %w", err)
	}
	return nil
}

// alive reports whether a process answers.
func (p *Plane) alive(ctx context.Context, process uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	_, err := p.jc.RequestWithContext(ctx, aliveSubject(process), nil)
	return err == nil
}

// watchWills drops wills, and has those published whose process is gone.
func (p *Plane) watchWills() {
	ticker := time.NewTicker(p.willsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wills.more:
			p.settleWills()
		case <-ticker.C:
			p.settleWills()
			p.dueWills(time.Now())
		}
	}
}

func (p *Plane) settleWills() {
	ctx, cancel := context.WithTimeout(p.ctx, 5*aliveTime)
	defer cancel()
	p.SettleWills(ctx)
}

// dueWills finds the processes that are gone.
func (p *Plane) dueWills(now time.Time) {
	others := map[uint64]bool{}
	p.wills.mu.Lock()
	for key, w := range p.wills.all {
		if w.Process != p.origin {
			others[w.Process] = true
		} else if _, here := p.wills.here[key]; !here {
			p.drop(w)
		}
	}
	p.wills.mu.Unlock()
	if !p.alive(p.ctx, p.origin) { // this node is cut off, and can say nothing of others
		clear(p.wills.silent)
		return
	}
	for process := range p.wills.silent {
		if !others[process] {
			delete(p.wills.silent, process)
		}
	}
	for process := range others {
		since, silent := p.wills.silent[process]
		switch {
		case p.alive(p.ctx, process):
			delete(p.wills.silent, process)
		case !silent:
			p.wills.silent[process] = now
		default:
			p.bequeath(process, p.left(process, now.Sub(since)-p.willSilence))
		}
	}
}

// left returns the wills of a process whose delays have passed, but for those that are being published.
func (p *Plane) left(process uint64, passed time.Duration) (left []Will) {
	p.wills.mu.Lock()
	defer p.wills.mu.Unlock()
	for key, w := range p.wills.all {
		if w.Process == process && w.Delay <= passed && p.wills.begun[key] != w.Revision {
			left = append(left, w)
		}
	}
	return left
}

// bequeath has wills of a process published for as long as it is silent: a node that was cut off finds the others silent, and can read their
// wills when it no longer is.
func (p *Plane) bequeath(process uint64, left []Will) {
	for some := range slices.Chunk(left, willsInTurn) {
		if !p.bequeathSome(process, some) {
			return // the rest the next time, unless the process is there
		}
		p.settleWills() // or the other nodes publish them, too
	}
}

func (p *Plane) bequeathSome(process uint64, some []Will) bool {
	ctx, cancel := context.WithTimeout(p.ctx, 5*aliveTime)
	defer cancel()
	wills, err := p.loadWills(ctx, some)
	if err != nil || p.alive(p.ctx, process) || p.ctx.Err() != nil {
		return false
	}
	var publishing errgroup.Group
	publishing.SetLimit(willsAtOnce)
	for _, w := range wills {
		p.wills.mu.Lock()
		p.wills.begun[willKeys+keyOf(w.Client)] = w.Revision
		p.wills.mu.Unlock()
		publishing.Go(func() error {
			if p.wills.due == nil || !p.wills.due(ctx, w) {
				p.UndueWill(w)
			}
			return nil
		})
	}
	return publishing.Wait() == nil
}

// loadWills returns those of some wills that are stored still.
func (p *Plane) loadWills(ctx context.Context, some []Will) ([]*Will, error) {
	stored := make([]*Will, len(some))
	loading, ctx := errgroup.WithContext(ctx)
	loading.SetLimit(willsAtOnce)
	for i, known := range some {
		loading.Go(func() error {
			key := willKeys + keyOf(known.Client)
			w, err := p.loadWill(ctx, key)
			switch {
			case err != nil:
				return err
			case w == nil:
				p.wills.mu.Lock()
				defer p.wills.mu.Unlock()
				if p.wills.all[key].Revision == known.Revision {
					delete(p.wills.all, key)
				}
			case w.Revision == known.Revision:
				stored[i] = w
			}
			return nil
		})
	}
	err := loading.Wait()
	return slices.DeleteFunc(stored, func(w *Will) bool { return w == nil }), err
}

// willKey reports whether a key in the bucket of sessions is that of a will.
func willKey(key string) bool { return strings.HasPrefix(key, willKeys) }
