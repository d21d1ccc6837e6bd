package schedule

import (
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Queue holds the tasks that wait for one resource. It is not safe for concurrent
// use. Calls take time logarithmic in the number of waiting tasks and, on average over many
// calls because Next does what others put off, of workflows that have tasks waiting; Ahead
// takes time linear in the latter. Only the first task of a workflow, its first beside one of another priority, and growing
// allocate.
type Queue struct {
	cfg      Config
	root     node
	classes  [work.NumClasses]node
	flows    [work.NumClasses][]*node // made when first used
	shares   []float64
	arrivals list // with Fair; without, the lines of the two classes tell as much
	losses   heap
	rotas    []*rota // that no leaf has
	plain    plain
	mixed    bool // tasks have several priorities, or had since the queue was empty: see ranks
	len      int
	seq      uint64
}

// New returns an empty queue, or every mistake in cfg.
func New(cfg Config) (*Queue, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	q := &Queue{cfg: cfg, arrivals: list{which: ofQueue}, losses: heap{which: byLoss}}
	for class := range q.classes {
		c := &q.classes[class]
		*c = newNode(&q.root)
		c.weigh(cfg.Quantum, cfg.Weights[class])
		if cfg.Fair {
			q.flows[class] = make([]*node, cfg.Workflows)
		}
	}
	if cfg.Fair {
		q.shares = make([]float64, cfg.Workflows)
		for w := range q.shares {
			q.shares[w] = 1
		}
	}
	return q, nil
}

func newNode(parent *node) node {
	return node{parent: parent, order: heap{which: byOrder}, later: heap{which: byTurn}, ages: list{which: ofLeaf}}
}

// Config returns the configuration with its defaults filled in.
func (q *Queue) Config() Config { return q.cfg }

// Len returns the number of waiting tasks.
func (q *Queue) Len() int { return q.len }

// Oldest returns the waiting task that arrived first, nil if none waits. Its age
// is the queueing delay. It takes constant time.
func (q *Queue) Oldest() *Task {
	if q.cfg.Fair {
		return q.arrivals.head
	}
	oldest := q.classes[0].ages.head
	for class := range q.classes[1:] {
		if t := q.classes[class+1].ages.head; oldest == nil || t != nil && t.older(oldest) {
			oldest = t
		}
	}
	return oldest
}

// NextWake returns the instant at which the next waiting task becomes unable to
// meet its deadline, mono.Never if none can. Call Expired then; earlier, later or
// not at all is harmless, for Next looks as well.
func (q *Queue) NextWake() mono.Time {
	_, at := q.losing()
	return at
}

// Push lets t wait. It does nothing to a task that waits already. A task that was
// dispatched and not settled is taken as settled. Tasks that arrived before others
// that wait already are put before those one by one: Arrived is for a delay of
// moments.
func (q *Queue) Push(now mono.Time, t *Task) {
	if t.in != nil {
		return
	}
	if t.Arrived == 0 || t.Arrived > now {
		t.Arrived = now
	}
	q.measure(t)
	q.takeTurn(t)
	q.admit(t)
	q.seq++
	t.in, t.seq = q, q.seq
	q.len++
	if q.cfg.Fair {
		q.arrivals.insert(t)
	}
	t.places = [numHeaps]int{nowhere, nowhere, nowhere}
	if !q.plain.holds || q.cfg.Order == FIFO {
		q.expect(t)
	}
	q.link(t)
}

// Remove takes t out because its caller gave up. It reports false, and does
// nothing, if t does not wait in this queue.
func (q *Queue) Remove(t *Task) bool {
	if t.in != q {
		return false
	}
	q.remove(t, false)
	return true
}

// remove takes out t, which waits here. served says that it is served.
func (q *Queue) remove(t *Task, served bool) {
	q.unlink(t)
	q.leaveTurn(t, t.leaf, served)
	q.losses.remove(t)
	if q.cfg.Fair {
		q.arrivals.remove(t)
	}
	t.in, t.leaf = nil, nil
	q.len--
}

// Expired removes and returns a task that cannot meet its deadline any more, the
// one that has been so for longest, or nil if there is none. Call it until then,
// also while the resource is busy: the sooner such a task is refused, the sooner
// its caller can do something else.
func (q *Queue) Expired(now mono.Time) *Task {
	t, at := q.losing()
	if t == nil || at > now {
		return nil
	}
	q.Remove(t)
	return t
}

// Next removes and returns the next task and whether it should run, on a resource
// that is free. Tasks that cannot meet their deadlines come out first, and are not
// to run; so call it until it returns nil or one that is. It never returns a task
// to run that cannot meet its deadline. Call Settle when the task is done.
func (q *Queue) Next(now mono.Time) (t *Task, run bool) {
	if t := q.Expired(now); t != nil {
		return t, false
	}
	if q.len == 0 {
		return nil, false
	}
	leaf := &q.root
	for leaf.children > 0 {
		child, grants := leaf.pick()
		leaf.begin(child, grants)
		leaf = child
	}
	t = q.first(now, leaf)
	t.dispatch(q.cfg.Quantum)
	if leaf.rota != nil {
		leaf.rota.serve(t, leaf.several && leaf.kinds.early(t))
	}
	if leaf.several {
		leaf.kinds.serve(t)
		t.overtaken = true
	}
	q.remove(t, true)
	t.leaf = leaf
	return t, true
}

// Peek returns what Next would return, and changes nothing.
func (q *Queue) Peek(now mono.Time) (t *Task, run bool) {
	if t, at := q.losing(); t != nil && at <= now {
		return t, false
	}
	if q.len == 0 {
		return nil, false
	}
	leaf := &q.root
	for leaf.children > 0 {
		leaf, _ = leaf.pick()
	}
	return q.first(now, leaf), true
}

// first returns the task of a leaf that is next.
func (q *Queue) first(now mono.Time, leaf *node) *Task {
	if len(leaf.later.entries) > 0 {
		leaf.ripen(q)
	}
	return leaf.first(now, q.cfg.Aging)
}

// SetWeight changes what a class gets relative to the others, from its next turn
// on. It reports false, and does nothing, outside MinWeight to MaxWeight or for a
// class that does not exist.
func (q *Queue) SetWeight(class work.Class, weight float64) bool {
	if class >= work.NumClasses || !validWeight(weight) {
		return false
	}
	q.cfg.Weights[class] = weight
	q.classes[class].weigh(q.cfg.Quantum, weight)
	return true
}

// SetShare changes what a workflow gets of what its class gets, 1 at first, from
// its next turn on. It reports false, and does nothing, outside MinWeight to
// MaxWeight, for a number that is not a workflow's own, or without Fair.
func (q *Queue) SetShare(workflow int, share float64) bool {
	if workflow < 0 || workflow >= len(q.shares) || !validWeight(share) {
		return false
	}
	q.shares[workflow] = share
	for class := range q.flows {
		if f := q.flows[class][workflow]; f != nil {
			f.weigh(q.cfg.Quantum, share)
		}
	}
	return true
}

// standing returns t's class, priority and key, with what was lent to it.
func (q *Queue) standing(t *Task) standing {
	s := standing{t.Class, t.Priority, q.key(t)}
	if s.class >= work.NumClasses {
		s.class = work.Default
	}
	if t.lent {
		s = s.raised(t.loan)
	}
	return s
}

// known returns where a task of that class and workflow waits, nil if none ever did.
func (q *Queue) known(class work.Class, workflow int) *node {
	if class >= work.NumClasses {
		class = work.Default
	}
	if !q.cfg.Fair {
		return &q.classes[class]
	}
	if workflow < 0 || workflow >= q.cfg.Workflows {
		workflow = 0
	}
	return q.flows[class][workflow]
}

// leaf returns where a task of that class and workflow waits.
func (q *Queue) leaf(class work.Class, workflow int) *node {
	if !q.cfg.Fair {
		return &q.classes[class]
	}
	if workflow < 0 || workflow >= q.cfg.Workflows {
		workflow = 0
	}
	f := q.flows[class][workflow]
	if f == nil {
		made := newNode(&q.classes[class])
		f = &made
		f.weigh(q.cfg.Quantum, q.shares[workflow])
		q.flows[class][workflow] = f
	}
	return f
}

// link puts t into its leaf, and the leaf and its class into their rings.
func (q *Queue) link(t *Task) {
	s := q.standing(t)
	t.leaf = q.leaf(s.class, t.Workflow)
	t.leaf.joinKinds(t)
	if !q.lineOnly() {
		was := t.leaf.order.first()
		if t.leaf.line(q, t, s); t.places[byOrder] == 0 {
			q.follow(t.leaf, was)
		}
	}
	t.leaf.ages.insert(t)
	if q.mixed {
		t.leaf.rank(t, s.priority)
	}
	for n := t.leaf; n.parent != nil; n = n.parent {
		n.waiting++
	}
	for n := t.leaf; n.parent != nil && n.next == nil; n = n.parent {
		n.parent.enter(n)
	}
}

// unlink undoes link.
func (q *Queue) unlink(t *Task) {
	first := t.places[byOrder] == 0
	if t.leaf.lineOf(t).remove(t); first {
		q.follow(t.leaf, t)
	}
	if t.leaf.several {
		t.leaf.kinds.count(t, -1)
	}
	t.leaf.later.remove(t)
	t.leaf.ages.remove(t)
	if q.mixed {
		t.leaf.unrank(t)
	}
	for n := t.leaf; n.parent != nil; n = n.parent {
		n.waiting--
	}
	if t.leaf.ages.head != nil {
		return
	}
	for n := t.leaf; n.parent != nil && n.children == 0; n = n.parent {
		n.parent.leave(n)
	}
}
