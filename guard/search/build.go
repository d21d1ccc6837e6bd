package search

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// mostCompleted is how many requests can have ended between two looks; a server that tells of more is wrong.
const mostCompleted = 1e9

// longestChain is how many parents of a task are followed; servers have three levels.
const longestChain = 16

// builder turns views into looks. It has all that is remembered between them.
type builder struct {
	tracker *track.Tracker
	nodes   map[string]nodeView // of the look before
	known   map[string]*known   // by name of a task
	targets map[uint64]goal     // of the present look, by ID
	look    uint64
	before  mono.Time
	// measures tells that the server measures searches: one that was on no thread yet waits for its first.
	measures bool
	shards   float64 // that a search asks in the mean
	part     float64 // of a completion that was not told yet
}

// known is what is remembered of a task or a part of one.
type known struct {
	start     int64 // as the server tells it
	started   mono.Time
	statement statement.Statement
	indices   string
	described bool // statement, size and indices are more than the action tells
	size      int  // how many digits its number of requests has, 0 for one request
	cpu, heap int64
	ran       mono.Time // when it was first seen to run
	look      uint64
}

// goal identifies a task to the server.
type goal struct {
	name, action string
	start        int64
}

// input is what the views showed at one look.
type input struct {
	at         mono.Time
	tasks      *tasksView
	nodes      map[string]nodeView
	processors map[string]int
	// detailed tells that tasks have descriptions and, with OpenSearch, what they used.
	detailed bool
	// mayCancel tells that the role may cancel.
	mayCancel bool
}

func newBuilder() *builder {
	return &builder{tracker: track.New(resources), known: map[string]*known{}, targets: map[uint64]goal{}, shards: 1}
}

// part is a task of the view, with what this look makes of it.
type part struct {
	*taskView
	*known
	root   int
	split  bool // has parts of its own, which do the work
	pool   int
	inPool bool
	runs   float64 // threads that run it
	waits  bool
	fresh  bool
}

// build makes the look of in.
func (b *builder) build(in *input) *track.Look {
	b.look++
	b.tracker.Begin(in.at)
	clear(b.targets)
	b.measures = b.measures || in.tasks.measured()
	parts := alone(b.parts(in))
	parents(parts)
	hot := hottest(in.nodes)
	for pool := range poolNames {
		place(in, parts, pool)
	}
	entries := b.roots(in, parts)
	b.hold(in, parts, entries, hot)
	b.consume(in, parts, entries)
	b.forget()
	completed := b.completed(in.nodes, parts)
	b.notes(in)
	b.nodes, b.before = in.nodes, in.at
	return b.tracker.End(completed)
}

// parts lists the tasks of a look, those of a node in the order in which they came: it numbers them.
func (b *builder) parts(in *input) (all []part) {
	for _, n := range in.tasks.Nodes {
		for name := range n.Tasks {
			t := n.Tasks[name]
			if t.Type == "persistent" {
				continue // it watches for work, and never ends
			}
			if r := t.Resources; r != nil && r.Threads.Executions == 0 && !(b.measures && isSearch(t.Action)) {
				t.Resources = nil // shown, and not measured
			}
			k := b.known[name]
			fresh := k == nil || k.start != *t.Start
			if fresh {
				k = &known{start: *t.Start, started: max(in.at.Add(-time.Duration(max(*t.Running, 0))), 0)}
				b.known[name] = k
			}
			if !k.described && (in.detailed || fresh) {
				k.described, k.indices = in.detailed, indicesOf(t.Description)
				k.statement, k.size = statementOf(t.Action, t.Description, sortOf(t.Action).class), sizeOf(t.Description)
			}
			k.look = b.look
			all = append(all, part{taskView: &t, known: k, fresh: fresh})
		}
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(*a.ID, *b.ID)) })
	return all
}

// alone drops the tasks of requests whose part on a shard does not name them as its parent, updates and gets: the
// part is the task then.
func alone(parts []part) []part {
	orphans, parent := map[string]bool{}, map[string]bool{}
	for i := range parts {
		if of, _, ok := strings.Cut(parts[i].Action, "["); ok && parts[i].Parent == "" {
			orphans[of] = true
		}
		parent[parts[i].Parent] = true
	}
	return slices.DeleteFunc(parts, func(p part) bool { return orphans[p.Action] && !parent[p.name()] })
}

// parents finds the task that each part belongs to, which may be on another node, and says which have parts. One
// whose parent is not shown is a task itself.
func parents(parts []part) {
	at := make(map[string]int, len(parts))
	for i := range parts {
		at[parts[i].name()] = i
	}
	for i := range parts {
		parts[i].root = i
		for range longestChain {
			up, ok := at[parts[parts[i].root].Parent]
			if !ok {
				break
			}
			parts[up].split = true
			parts[i].root = up
		}
	}
}

// hottest returns for each pool the node where most wait, "" if none waits. Pools of one name are
// pools apart: who holds threads of another node is no obstacle to those who wait here.
func hottest(nodes map[string]nodeView) (hot [len(poolNames)]string) {
	for pool, name := range poolNames {
		most := int64(0)
		for _, id := range slices.Sorted(maps.Keys(nodes)) {
			if q := nodes[id].Pools[name].Queue; q > most {
				most, hot[pool] = q, id
			}
		}
	}
	return hot
}

// place says which parts of a pool run and which wait. A part that has parts itself has given its thread back: an
// update is a part that reads, then a bulk request with a part for the shard, with one for the primary.
//
// A pool with a queue has no thread left. Where the server does not tell how many threads run a part, the largest run
// then, and of equals the oldest, as many as there are threads, and all others wait: what a thread is seen at is mostly
// large, an update that is tried again is old without running, and the queue's length may be older than the list.
func place(in *input, parts []part, pool int) {
	full, free := map[string]bool{}, map[string]int64{}
	for id, n := range in.nodes {
		p := n.Pools[poolNames[pool]]
		full[id], free[id] = p.Queue > 0, max(p.Active, 1)
	}
	var order []*part
	for i := range parts {
		if of, ok := poolOf(parts[i].Action); ok && of == pool && !parts[i].split {
			order = append(order, &parts[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *part) int { return cmp.Compare(b.size, a.size) })
	for _, p := range order {
		p.pool, p.inPool = pool, true
		switch {
		case p.Resources != nil && p.Resources.Threads.Active > 0:
			p.runs = float64(p.Resources.Threads.Active)
		case p.Resources != nil && p.Resources.Threads.Executions > 0:
			// between two executions: it waits for something else than a thread
		case p.Resources != nil, full[p.Node] && free[p.Node] == 0:
			p.waits = true
		default:
			p.runs = 1
			free[p.Node]--
		}
	}
}

// roots enters the tasks.
func (b *builder) roots(in *input, parts []part) []*track.Entry {
	entries := make([]*track.Entry, len(parts))
	for i := range parts {
		p := &parts[i]
		if p.root != i {
			continue
		}
		e := b.tracker.Task(track.Key{Process: hash(p.Node), Session: *p.ID, Work: p.start}, p.started)
		entries[i] = e
		t, s := b.tracker.At(e)
		sort := sortOf(p.Action)
		t.Kind, t.Background, t.Barred = p.statement.Fingerprint, sort.background, sort.bar
		t.Done, t.Total = progress(p.Status)
		t.Ending = p.Cancelled
		if p.Cancellable && in.mayCancel {
			t.Steps = culprit.StepsOf(culprit.Statement)
		}
		s.Process, s.Application, s.Database, s.Client = *p.ID, p.Headers["X-Opaque-Id"], p.indices, p.Node
		s.Statement, s.State, s.Route = p.statement, p.Action, routeOf(p.Action, p.indices)
		if p.Cancelled {
			s.State += " (cancelled)"
		}
		b.targets[t.ID] = goal{p.name(), p.Action, p.start}
	}
	return entries
}

// hold enters who has threads and who waits for one.
func (b *builder) hold(in *input, parts []part, entries []*track.Entry, hot [len(poolNames)]string) {
	type place struct{ root, pool int }
	running := map[place]bool{}
	counts := func(p *part) bool { return p.inPool && (hot[p.pool] == "" || hot[p.pool] == p.Node) }
	for i := range parts {
		p := &parts[i]
		if p.runs == 0 || !counts(p) {
			continue
		}
		if p.ran == 0 { // it began to run since the look before
			p.ran = max(p.started, min(b.before, in.at))
		}
		running[place{p.root, p.pool}] = true
		b.tracker.Holds(entries[p.root], p.pool, p.ran, uint64(p.runs), false)
	}
	for i := range parts {
		// A task that has some threads goes on, if more slowly.
		if p := &parts[i]; p.waits && counts(p) && !running[place{p.root, p.pool}] {
			b.tracker.Waits(entries[p.root], p.pool, p.started)
		}
	}
}

// forget drops tasks that are gone.
func (b *builder) forget() {
	for name, k := range b.known {
		if k.look != b.look {
			delete(b.known, name)
		}
	}
}

// completed is how many requests have ended since the look before. OpenSearch counts searches; where only their
// parts are counted, they are divided by how many a search has in the mean. Of writes and gets the executions
// count, because the documents of a bulk request are counted one by one. A node that is new, or was restarted, has
// none.
func (b *builder) completed(nodes map[string]nodeView, parts []part) uint64 {
	of := map[int]float64{}
	for i := range parts {
		if p := &parts[i]; p.inPool && p.pool == searchPool {
			of[p.root]++
		}
	}
	for _, i := range slices.Sorted(maps.Keys(of)) {
		const weight = 0.01 // of one search: the mean of some hundred
		b.shards += weight * (of[i] - b.shards)
	}
	since := func(now, was int64) float64 { return float64(max(now-was, 0)) }
	for id, now := range nodes {
		was, ok := b.nodes[id]
		if !ok {
			continue
		}
		// It stays 0 where statistics of requests are off, and with Elasticsearch.
		if now.Indices.Search.Request.Took.Total > 0 {
			b.part += since(now.Indices.Search.Request.Took.Total, was.Indices.Search.Request.Took.Total)
		} else {
			b.part += since(now.Indices.Search.Shards, was.Indices.Search.Shards) / max(b.shards, 1)
		}
		for _, pool := range [...]int{writePool, getPool} {
			b.part += since(now.Pools[poolNames[pool]].Completed, was.Pools[poolNames[pool]].Completed)
		}
	}
	b.part = min(b.part, mostCompleted)
	whole := uint64(b.part)
	b.part -= float64(whole)
	return whole
}

// notes tells what cannot be done or is refused by the server itself.
func (b *builder) notes(in *input) {
	if !in.mayCancel {
		b.tracker.Note("tasks cannot be cancelled; the role lacks the privilege " + rightCancel)
	}
	rejected, tripped := map[string]bool{}, map[string]bool{}
	for id, now := range in.nodes {
		was, ok := b.nodes[id]
		if !ok {
			continue
		}
		for name, p := range now.Pools {
			if p.Rejected > was.Pools[name].Rejected {
				rejected[name] = true
			}
		}
		for name, k := range now.Breakers {
			if k.Tripped > was.Breakers[name].Tripped {
				tripped[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rejected)) {
		b.tracker.Note("the queue of the thread pool " + name + " is full: the server refuses requests")
	}
	for _, name := range slices.Sorted(maps.Keys(tripped)) {
		b.tracker.Note("the circuit breaker " + name + " refuses requests for a lack of heap")
	}
}

// hash makes a number of a node's name.
func hash(text string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return int64(h.Sum64() >> 1)
}
