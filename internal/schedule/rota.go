package schedule

import "github.com/spillgate/spillgate/internal/work"

// Turn is a place in the order in which the senders of a leaf take turns, the lowest first. ARound is as long as it
// takes to serve each sender that waits once.
type Turn int64

// ARound is fine enough for a round of a million senders.
const ARound Turn = 1 << 20

// rota has the senders whose tasks wait in a leaf take turns: start-time fair queueing (Goyal, Vin and Cheng 1996),
// with a clock that goes by the number of senders that wait.
//
//	the turn of a task   is now, or when the last one of its sender ends, whatever is later
//	a turn               ends a round after it began; later, if the task took longer than the mean, sooner, if less
//	now                  goes on by a round while each sender that waits is served once
//
// So a burst waits behind itself. A sender that has nothing else waiting stands behind those that came before it, as in
// the order of arrival. A round is as long as the queue: a sender of many users, as an address that a company shares,
// has a turn for each time that all who wait are served, and loses against others only what they ask for up to as much.
// When the leaf is empty all is forgotten, so no sender owes for what it had while no other one waited, and the rota is
// another leaf's: there are as many as leaves ever had two tasks at once.
type rota struct {
	now     Turn
	last    Turn // of all that wait
	era     uint32
	waiting int              // senders that have tasks waiting
	due     int              // tasks whose turns are in steps before that of now
	steps   [mostSteps]int32 // tasks by the steps of their turns
	places  []sender
}

// sender is what a leaf knows of one, and nothing that matters once no task of it waits and its last turn is over.
type sender struct {
	number  uint64
	end     Turn // of its last turn
	era     uint32
	waiting int32
}

const (
	// aStep is the part of a round to which Ahead tells turns apart.
	aStep = ARound / 4
	// mostSteps is how many steps a sender can be ahead of the others, 512 rounds. What is beyond is forgiven.
	mostSteps = 2048
	// mostCost is how many tasks of the mean length a long one counts at most.
	mostCost = 16
	// senderProbes is how many places are looked at for a free one. If there is none two senders share a place and its
	// turns: with half of Config.Senders waiting, one in 200 does.
	senderProbes = 8
)

// find returns the place of a sender, or a free one, or, if there is none, that of another sender.
func (q *rota) find(number uint64) (p *sender, free bool) {
	const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ ÷ the golden ratio: neighbours go far apart
	for i := range min(senderProbes, len(q.places)) {
		at := &q.places[(number*golden>>32+uint64(i))%uint64(len(q.places))]
		if at.era == q.era && at.number == number {
			return at, false
		}
		if p == nil || !free {
			if gone := at.era != q.era || at.waiting == 0 && at.end <= q.now; gone || p == nil {
				p, free = at, gone
			}
		}
	}
	return p, free
}

// next returns the turn that the next task of a sender would have. One that is not known, 0, is in the order of arrival.
func (q *rota) next(number uint64) Turn {
	if number == 0 {
		return q.now
	}
	p, free := q.find(number)
	if free {
		return q.now
	}
	return q.bounded(p.end)
}

// bounded returns the later of now and t, within mostSteps.
func (q *rota) bounded(t Turn) Turn { return min(max(q.now, t), q.now+(mostSteps-1)*aStep) }

// enter gives t, which is about to wait, its turn.
func (q *rota) enter(t *Task) {
	t.turn, t.overtaken, t.rota, t.place, t.era = q.now, false, q, nil, q.era
	if t.Sender != 0 {
		p, free := q.find(t.Sender)
		if free {
			*p = sender{number: t.Sender, end: q.now, era: q.era}
		}
		t.turn = q.bounded(p.end)
		t.overtaken, t.place = t.turn > q.now, p
		p.end = t.turn + ARound
		if p.waiting++; p.waiting == 1 {
			q.waiting++
		}
	}
	q.last = max(q.last, t.turn)
	q.count(t, 1)
}

// count adds to the number of tasks in the step of t.
func (q *rota) count(t *Task, n int) {
	if t.turn/aStep < q.now/aStep {
		q.due += n
	} else {
		q.steps[t.turn/aStep%mostSteps] += int32(n)
	}
}

// serve goes on by the turn of t, which waits and is about to be served. early says that another turn is before.
func (q *rota) serve(t *Task, early bool) {
	to := q.now + ARound/Turn(max(q.waiting, 1))
	if !early {
		to = max(to, t.turn)
	}
	for step := q.now / aStep; step < min(to/aStep, q.now/aStep+mostSteps); step++ {
		q.due += int(q.steps[step%mostSteps])
		q.steps[step%mostSteps] = 0
	}
	q.now = to
}

// leave says that t waits no more. If it was not served, its turn is given back.
func (q *rota) leave(t *Task, served bool) {
	q.count(t, -1)
	if p := t.place; p != nil {
		if p.waiting--; p.waiting == 0 {
			q.waiting--
		}
		if !served {
			p.end -= ARound
			t.place = nil
		}
	}
}

// settle counts what t, which was served, took: so many tasks of the mean length, and not one.
func (q *rota) settle(t *Task, took float64) {
	p := t.place
	t.place = nil
	if p != nil && t.era == q.era && p.era == q.era && p.number == t.Sender {
		p.end += Turn((min(took, mostCost) - 1) * float64(ARound))
	}
}

// ahead returns how many of the waiting tasks have a turn no later than the next task of a sender would have.
func (q *rota) ahead(number uint64, waiting int) int {
	turn := q.next(number)
	if turn >= q.last {
		return waiting
	}
	ahead := q.due
	for step := q.now / aStep; step <= turn/aStep; step++ {
		ahead += int(q.steps[step%mostSteps])
	}
	return ahead
}

// Turn returns the turn that a task of that class, workflow and sender would have that is pushed now; see Task.Turn.
// 0 without Config.Senders.
func (q *Queue) Turn(class work.Class, workflow int, sender uint64) Turn {
	leaf := q.known(class, workflow)
	switch {
	case leaf == nil || q.cfg.Senders == 0:
		return 0
	case leaf.rota != nil:
		return leaf.rota.next(sender)
	case leaf.waiting > 0 && sender != 0 && leaf.ages.head.Sender == sender:
		return ARound
	}
	return 0
}

// Turn returns the turn of t, which waits. Turns of tasks of one class and workflow can be compared.
func (t *Task) Turn() Turn { return t.turn }

// Overtaken reports whether t, which waits or did, stood behind others that came later, because turns of its sender
// were not over when it was pushed, or may have overtaken others or been overtaken, because of its kind.
func (t *Task) Overtaken() bool { return t.overtaken }

// takeTurn gives t, which is about to wait, its turn in the leaf of its class and workflow. Where nothing else waits that
// is the first, and no rota is needed.
func (q *Queue) takeTurn(t *Task) {
	if t.turn, t.overtaken, t.rota, t.place = 0, false, nil, nil; q.cfg.Senders == 0 {
		return
	}
	leaf := q.leaf(q.standing(t).class, t.Workflow)
	if t.leaf = leaf; leaf.waiting == 0 {
		return
	}
	if leaf.rota == nil {
		leaf.rota = q.spareRota()
		leaf.rota.enter(leaf.ages.head)
	}
	leaf.rota.enter(t)
}

// spareRota returns one that no leaf has.
func (q *Queue) spareRota() *rota {
	last := len(q.rotas) - 1
	if last < 0 {
		return &rota{era: 1, places: make([]sender, q.cfg.Senders)}
	}
	r := q.rotas[last]
	q.rotas = q.rotas[:last]
	return r
}

// leaveTurn takes t, which does not wait in the leaf any more, out of its rota, if there is one, and that from the leaf if
// nothing waits there.
func (q *Queue) leaveTurn(t *Task, leaf *node, served bool) {
	if r := leaf.rota; r != nil {
		q.leaveRota(t, leaf, r, served)
	}
}

// leaveRota is apart so that leaveTurn can be inlined.
func (q *Queue) leaveRota(t *Task, leaf *node, r *rota, served bool) {
	r.leave(t, served)
	if leaf.waiting == 0 {
		r.now, r.last = 0, 0
		r.era++
		leaf.rota = nil
		q.rotas = append(q.rotas, r)
	}
}

// key returns t's place in the order of q, smallest first: in FIFO its turn.
func (q *Queue) key(t *Task) int64 {
	if q.cfg.Senders > 0 && q.cfg.Order == FIFO {
		return int64(t.turn)
	}
	return q.cfg.Order.key(t)
}

// line puts t with that standing into the heap of n that it waits in. In an order other than FIFO a task whose turn has
// not come waits for that, and is then in the order.
func (n *node) line(q *Queue, t *Task, s standing) {
	if q.cfg.Order != FIFO && n.rota != nil && t.turn > n.rota.now {
		n.later.push(entry{int64(t.turn), t, s.priority})
		return
	}
	n.lineOf(t).push(entry{s.key, t, s.priority})
}

// ripen puts the tasks whose turns have come into the order. Those behind one of a better priority whose turn has not
// come stay: it goes before them anyway.
func (n *node) ripen(q *Queue) {
	for t := n.later.first(); t != nil && t.turn <= n.rota.now; t = n.later.first() {
		s := q.standing(t)
		n.later.remove(t)
		n.order.push(entry{s.key, t, s.priority})
	}
}

// best returns the task that is first by priority, turn and order.
func (n *node) best() *Task {
	if n.several {
		return n.kinds.first(n.rota)
	}
	t := n.order.first()
	if len(n.later.entries) == 0 {
		return t
	}
	if next := &n.later.entries[0]; t == nil || next.priority < n.order.entries[0].priority {
		return next.task
	}
	return t
}
