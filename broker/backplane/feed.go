package backplane

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/follow"
)

// A node of several reads from the log what its subscribers want, and marks, which each node appends after what it has appended:
//
//	filters a/b, c/+/d ─▶ spillgate.log.n.a.b, spillgate.log.n.c.>, spillgate.log.mark ─▶ consumer ─▶ hub
//
// So a mark says that all before it was delivered that somebody here wants, and a node to which nothing is sent is not behind. A client is
// told that it subscribes when the feed covers that (Settle); until then another consumer is made, and the one before is read from. A log
// that is full takes no mark, and could not be cut for want of one: where none comes, the feed reads everything for a while. So it does
// always where a node is alone.

const (
	markSubject = logSubjects + "mark"
	// markEvery is how often a mark is appended where something was.
	markEvery = time.Second
	// markTime is how long a change of the feed waits for its own mark: so that what was published before a client subscribed is behind
	// the feed then. Without it the client may get messages of the last second.
	markTime = time.Second
	// narrowEvery is how often the feed gives up what nobody wants any more, and for how long no mark comes until it reads everything.
	narrowEvery = 10 * time.Second
	// changeTime bounds one attempt to change the feed.
	changeTime = 5 * time.Second
	// changePause is between two changes: a client that subscribes to ever new topics keeps NATS from nothing else.
	changePause = 20 * time.Millisecond
	// maxSubjects is how many subjects a feed has. With more, those that begin alike become one: each takes time of every message.
	maxSubjects = 64
)

// answers is the topics of answers to requests, which every feed covers: clients of NATS subscribe to one of their own as they connect.
const answers = "_INBOX/#"

// feed is what a node reads from the log.
type feed struct {
	changing *follow.Changing // nil where the node is alone
	more     chan struct{}    // has one element while somebody waits
	appended atomic.Bool      // since the last mark of this node
	every    time.Duration    // narrowEvery, but for tests

	mu       sync.Mutex
	filters  map[string]bool
	covers   []string
	changes  []string      // to what covers is being changed; nil while it is not
	wanted   uint64        // counts the filters that were not covered
	covered  uint64        // up to which of them are
	settling chan struct{} // closed when covered changes
}

func (f *feed) want(filter string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filters[filter] = true
	if f.coversAll(filter) {
		return
	}
	f.wanted++
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *feed) unwant(filter string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.filters, filter)
}

// coversAll reports whether the feed has, and goes on having, all that a filter covers. The lock is held.
func (f *feed) coversAll(filter string) bool {
	for _, s := range prefixesOf(filter) {
		if !covered(f.covers, s) || f.changes != nil && !covered(f.changes, s) {
			return false
		}
	}
	return true
}

// Settle waits until all messages come to this node that the log takes from then on and that a filter covers which somebody here
// subscribes to.
func (p *Plane) Settle(ctx context.Context, filter string) error {
	f := &p.feed
	if p.alone {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for wanted := f.wanted; f.covered < wanted && !f.coversAll(filter); {
		changed := f.settling
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-p.ctx.Done():
		}
		f.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// next returns what the feed is to read, everything if all is set, and up to which filter that covers all. Until settled or failed is called,
// a filter counts as covered only if that covers it too. It is found without the lock, for which publishers may wait.
func (f *feed) next(all bool) (subjects []string, wanted uint64) {
	f.mu.Lock()
	filters := slices.Collect(maps.Keys(f.filters))
	wanted, f.changes = f.wanted, []string{} // until it is found nothing counts as covered
	f.mu.Unlock()
	if subjects = []string{logSubjects + ">"}; !all {
		subjects = subjectsFor(filters)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = subjects
	return subjects, wanted
}

// failed notes that the feed reads what it did.
func (f *feed) failed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = nil
}

// settled notes what the feed reads.
func (f *feed) settled(subjects []string, wanted uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.covers, f.covered, f.changes = subjects, wanted, nil
	close(f.settling)
	f.settling = make(chan struct{})
}

// follow reads the log after a position.
func (p *Plane) follow(after uint64) {
	f := &p.feed
	b := p.hub.NewBatch()
	deliver := func(all []follow.Message) { p.deliver(b, all) }
	if p.alone {
		p.done.Go(func() { p.streamOf(logStream).Follow(p.ctx, after, deliver) })
		return
	}
	f.changing = follow.NewChanging(p.streamOf(logStream), after)
	subjects, wanted := f.next(false)
	f.settled(subjects, wanted) // nobody has been told anything yet
	p.done.Go(func() { f.changing.Run(p.ctx, subjects, deliver) })
	p.done.Go(p.change)
	p.done.Go(p.mark)
}

// change has the feed read what is wanted.
func (p *Plane) change() {
	f := &p.feed
	narrow := time.NewTicker(f.every)
	defer narrow.Stop()
	for position := p.Position(); ; {
		all := false
		select {
		case <-p.ctx.Done():
			return
		case <-f.more:
			p.reach(p.ctx)
		case <-narrow.C:
			all = p.stands(position)
			position = p.Position()
		}
		subjects, wanted := f.next(all)
		if slices.Equal(subjects, f.covers) { // which changes here alone
			f.settled(subjects, wanted)
			continue
		}
		ctx, cancel := context.WithTimeout(p.ctx, changeTime)
		err := f.changing.Change(ctx, subjects)
		cancel()
		if err == nil {
			f.settled(subjects, wanted)
			p.sleep(changePause)
			continue
		}
		f.failed()
		p.log.Debug("the feed is not changed", "error", err)
		p.sleep(askPause)
		select {
		case f.more <- struct{}{}:
		default:
		}
	}
}

// stands reports whether the feed is where it was, and the log further.
func (p *Plane) stands(was uint64) bool {
	if p.Position() != was {
		return false
	}
	ctx, cancel := context.WithTimeout(p.ctx, ackTime)
	defer cancel()
	info, err := p.stream.Info(ctx)
	return err == nil && info.State.LastSeq > was
}

// reach appends a mark and waits until it comes.
func (p *Plane) reach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markTime)
	defer cancel()
	ack, err := p.js.PublishMsg(ctx, nats.NewMsg(markSubject))
	for err == nil && p.Position() < ack.Sequence && ctx.Err() == nil {
		p.sleep(time.Millisecond)
	}
}

// mark appends marks.
func (p *Plane) mark() {
	for p.ctx.Err() == nil {
		p.sleep(markEvery)
		if !p.feed.appended.Swap(false) {
			continue
		}
		ctx, cancel := context.WithTimeout(p.ctx, ackTime)
		if _, err := p.js.PublishMsg(ctx, nats.NewMsg(markSubject)); err != nil {
			p.feed.appended.Store(true)
		}
		cancel()
	}
}

// Wanted has other nodes send, and the feed read, what a filter covers.
func (p *Plane) Wanted(of engine.Interest) {
	p.interest.set(of, true)
	if of.Group == "" && !p.alone {
		p.feed.want(of.Filter)
	}
}

// Unwanted ends that.
func (p *Plane) Unwanted(of engine.Interest) {
	p.interest.set(of, false)
	if of.Group == "" && !p.alone {
		p.feed.unwant(of.Filter)
	}
}

// prefixesOf returns the subjects without wildcards but ">" at the end that cover a filter.
func prefixesOf(filter string) []string {
	at := string(appendTree([]byte(logSubjects), filter))
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		switch {
		case level == "#" && at != logSubjects+"n" && at != logSubjects+"s":
			return []string{at, at + ".>"}
		case level == "#" || level == "+":
			return []string{at + ".>"}
		}
		at = string(appendLevel([]byte(at+"."), level))
	}
	return []string{at}
}

// covered reports whether a subject is among others, or below one of them.
func covered(by []string, subject string) bool {
	for _, s := range by {
		if above, all := strings.CutSuffix(s, ">"); s == subject || all && strings.HasPrefix(subject, above) {
			return true
		}
	}
	return false
}

// subjectsFor returns the subjects of a feed for filters, which cover them, of which none covers another one, in order.
func subjectsFor(filters []string) []string {
	var all []string
	for _, f := range append(filters, answers) {
		all = append(all, prefixesOf(f)...)
	}
	all = reduced(append(all, markSubject))
	for deepest := len(strings.Split(logSubjects, ".")) + 32; len(all) > maxSubjects; deepest-- {
		for i, s := range all {
			if tokens := strings.SplitN(s, ".", deepest+1); len(tokens) > deepest && s != markSubject {
				all[i] = strings.Join(tokens[:deepest-1], ".") + ".>"
			}
		}
		all = reduced(all)
	}
	return all
}

// reduced returns subjects without those that others cover, in order.
func reduced(all []string) []string {
	have := map[string]bool{}
	for _, s := range all {
		have[s] = true
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool {
		for i := strings.IndexByte(s, '.'); i >= 0; {
			if above := s[:i] + ".>"; above != s && have[above] {
				return true
			}
			next := strings.IndexByte(s[i+1:], '.')
			if next < 0 {
				return false
			}
			i += 1 + next
		}
		return false
	})
}
