package backplane

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/broker/follow"
)

// told is what nodes have told of themselves, as far as this node has heard. They tell it every trimEvery.
type told struct {
	mu       sync.Mutex
	all      map[string]toldBy // by the node's key
	revision uint64            // of the last change
	came     chan struct{}     // has one element when there is something new
}

// toldBy is how far a node is in the log, and which shared subscriptions have members there.
type toldBy struct {
	position uint64
	groups   []string
	at       time.Time
	readable bool // else another version told something that this one does not know
}

// tell tells the other nodes how far this one is, and which shared subscriptions have members here. It returns the revision of that.
func (p *Plane) tell(ctx context.Context) (revision uint64, err error) {
	told := strconv.AppendUint(nil, p.Position(), 10)
	p.groups.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(p.groups.here)) {
		told = append(append(told, ' '), name...)
	}
	p.groups.mu.Unlock()
	return p.nodes.Put(ctx, token(p.cfg.Node), told)
}

// announce is tell, again and again while that may help, until ctx ends.
func (p *Plane) announce(ctx context.Context) error {
	return p.ask(ctx, func(ctx context.Context) error {
		_, err := p.tell(ctx)
		return err
	})
}

// hears takes what a node told.
func (p *Plane) hears(m *follow.Message) {
	t := &p.told
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision = m.Position
	key := strings.TrimPrefix(m.Subject(), bucketSubjects+nodeBucket+".")
	if m.Headers().Get(deletedHeader) != "" {
		delete(t.all, key)
	} else {
		n := toldBy{at: m.Stored}
		if words := strings.Fields(string(m.Data())); len(words) > 0 {
			at, err := strconv.ParseUint(words[0], 10, 64)
			n.position, n.groups, n.readable = at, words[1:], err == nil
		}
		t.all[key] = n
		p.groups.joined(n.groups)
	}
	select {
	case t.came <- struct{}{}:
	default:
	}
}

// toldBy returns what all nodes have told, once that of a revision is heard, and all before. It returns nil if ctx ends before.
func (p *Plane) toldBy(ctx context.Context, revision uint64) map[string]toldBy {
	for {
		p.told.mu.Lock()
		if p.told.revision >= revision {
			defer p.told.mu.Unlock()
			return maps.Clone(p.told.all)
		}
		p.told.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-p.told.came:
		}
	}
}
