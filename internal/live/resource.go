package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// chargeEvery is how long a request holds a resource before that is charged and
// told, and then again: the others are not to wait for its end before they are
// served first (Wisp §4.3).
const chargeEvery = 10 * time.Millisecond

// drainPushback is how long after a resource was closed another attempt makes
// sense: by then, callers have found another process.
const drainPushback = time.Second

// ResourceConfig describes a Resource. Only Capacity is required.
type ResourceConfig struct {
	// Queue is the order of those who wait. Its Workflows is also the most
	// workflows that Fair tells apart by name; the others share one turn.
	Queue schedule.Config
	// Capacity is how many requests hold the resource at once: the workers of a
	// pool, the permits of a semaphore, the connections of a pool. Required, 1 to
	// 1,048,576. What a larger one does is up to what stands behind it.
	Capacity int
	// Waiting is the most requests that wait. Default 1,024, at most 1,048,576.
	// One more is refused with work.QueueFull. Larger absorbs longer bursts, and
	// makes a standing queue longer: a bound for memory, not for delay.
	Waiting int
	// OnUse, if set, is told for how long a workflow held one of Capacity, when
	// it is given back and every 10 ms before: what rates.Adapter.OnUse wants to
	// know. It is called outside the lock, possibly from several goroutines at
	// once, and must not block.
	OnUse func(workflow string, busy time.Duration)
}

func (c ResourceConfig) withDefaults() (ResourceConfig, error) {
	const most = 1 << 20
	var errs []error
	if c.Capacity < 1 || c.Capacity > most {
		errs = append(errs, fmt.Errorf("live: Capacity is %d, expected 1 to %d", c.Capacity, most))
	}
	if c.Waiting < 0 || c.Waiting > most {
		errs = append(errs, fmt.Errorf("live: Waiting is %d, expected 1 to %d, or 0 for the default", c.Waiting, most))
	}
	if c.Waiting == 0 {
		c.Waiting = 1024
	}
	return c, errors.Join(errs...)
}

// Resource is something that a limited number of requests hold at once, such as
// the workers of a pool, and the queue in front of it. Who waits is served in the
// order of schedule.Queue: class, priority and workflow come from the tags of the
// request's context, its deadline from the context, what it still needs from tags
// and span. All methods may be called at once from any goroutine.
//
//	Acquire ──▶ queue ──▶ Hold ──▶ Release
//	              │
//	              └▶ *Refusal: infeasible, expired, canceled, queue_full, draining
//
// A request may acquire a second resource while it holds a first one. If it gives
// its Hold's context to the second Acquire, it inherits the rank of the best
// request that waits for the first, since that one waits for it. Resources must
// be acquired in one order by all, or requests wait for each other until their
// deadlines; this package does not look for such cycles.
type Resource struct {
	capacity int
	waiting  int
	order    schedule.Order
	onUse    func(string, time.Duration)

	mu     sync.Mutex
	queue  *schedule.Queue
	flows  node.Flows
	free   int
	held   *Hold // list of those who hold, newest first
	stuck  int   // of them, how many have waiters elsewhere
	timer  *time.Timer
	armed  mono.Time // of timer; mono.Never: not running
	closed bool
	stats  ResourceStats
	gate   func(string, time.Duration) // that watches it, as onUse
}

// ResourceStats is a Resource at one instant.
type ResourceStats struct {
	// Capacity is how many may hold the resource, Held how many do, Waiting how
	// many wait.
	Capacity, Held, Waiting int
	// Delay is how long the one who waits longest has waited.
	Delay time.Duration
	// Granted counts requests that got the resource, Refused by reason those
	// that did not.
	Granted uint64
	Refused [work.NumReasons]uint64
	// Waited is how long those who got the resource waited for it, all together.
	Waited time.Duration
	// Busy is how long units of the resource were held, all together, by those
	// who have given them back.
	Busy time.Duration
}

// NewResource returns a resource that nobody holds, or every mistake in cfg. Close
// it when it is of no more use.
func NewResource(cfg ResourceConfig) (*Resource, error) {
	queue, errQueue := schedule.New(cfg.Queue)
	cfg, err := cfg.withDefaults()
	if err := errors.Join(errQueue, err); err != nil {
		return nil, err
	}
	names := 1
	if queue.Config().Fair {
		names = queue.Config().Workflows
	}
	r := &Resource{
		capacity: cfg.Capacity, waiting: cfg.Waiting, order: queue.Config().Order, onUse: cfg.OnUse,
		queue: queue, flows: node.NewFlows(names), free: cfg.Capacity, armed: mono.Never,
	}
	r.timer = time.AfterFunc(time.Hour, r.onTimer)
	r.timer.Stop()
	return r, nil
}

// Hold is one unit of a resource, or the wait for it.
type Hold struct {
	r        *Resource
	up       *Hold // of the context that it was acquired with
	task     schedule.Task
	workflow string
	flow     *node.Flow

	// Guarded by the lock of r.
	wake       chan work.Reason // of one who waits; None: it is yours
	reason     work.Reason      // of one who did not have to
	granted    bool
	released   bool
	started    mono.Time
	told       time.Duration // to onUse
	waiters    []*Hold       // wait elsewhere, with the context of this one
	prev, next *Hold         // in r.held
}

// Do runs fn while it holds one unit of the resource, after the wait for it. cost
// estimates how long, 0 if unknown. It returns fn's error, or a *Refusal; then fn
// did not run. The unit is given back when fn returns, and also when it panics.
// fn gets the context of the hold.
func (r *Resource) Do(ctx context.Context, cost time.Duration, fn func(ctx context.Context) error) error {
	h, err := r.Acquire(ctx, cost)
	if err != nil {
		return err
	}
	defer h.Release()
	return fn(h.Context(ctx))
}

// Acquire waits for one unit of the resource, which Release gives back, or refuses
// with a *Refusal. The wait ends with ctx, and early when the request can no longer
// meet its deadline. cost estimates how long the unit will be held, 0 if unknown.
// A wait is left out of the progress of ctx's Span.
func (r *Resource) Acquire(ctx context.Context, cost time.Duration) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, r.gone(ctx)
	}
	span := SpanFrom(ctx)
	h := &Hold{r: r, up: holdFrom(ctx)}
	h.describe(ctx, span, cost)
	r.mu.Lock()
	now := Now()
	switch {
	case r.closed:
		return nil, r.refuse(work.Draining, drainPushback)
	case r.queue.Len() >= r.waiting:
		return nil, r.refuse(work.QueueFull, now.Sub(r.queue.Oldest().Arrived))
	}
	h.flow = r.flow(now, h.workflow)
	h.flow.Inside++
	h.task.Workflow = h.flow.Number
	r.queue.Push(now, &h.task)
	r.serve(now)
	if !h.task.Waiting() {
		reason := h.reason
		r.unlock(now)
		return h.outcome(reason, nil)
	}
	h.wake = make(chan work.Reason, 1)
	seen, stuck := h.task, r.stuck > 0
	r.unlock(now)

	span.BeginWait()
	defer span.EndWait()
	if h.up != nil {
		h.borrow(now)
		defer h.unborrow()
	}
	if stuck {
		r.lend(seen, 0)
	}
	select {
	case reason := <-h.wake:
		return h.outcome(reason, nil)
	case <-ctx.Done():
		return h.giveUp(ctx)
	}
}

// describe fills in what the queue is to know of the request.
func (h *Hold) describe(ctx context.Context, span *Span, cost time.Duration) {
	tags := TagsFrom(ctx)
	elapsed := tags.Elapsed
	if span != nil {
		elapsed = span.Elapsed()
	}
	h.workflow = tags.Workflow
	h.task = schedule.Task{
		Class: tags.Class, Priority: tags.Priority, Deadline: mono.Never,
		Remaining: progress.Remaining(tags.Total.Service, elapsed.Service),
		Total:     tags.Total.Work, Done: elapsed.Work,
		Cost: cost, Owner: h,
	}
	if t := ticketFrom(ctx); t.Span() != nil {
		h.task.Least = max(progress.Remaining(t.stay.Least, elapsed.Service-tags.Elapsed.Service), 1)
	}
	if d, ok := ctx.Deadline(); ok {
		h.task.Deadline = Instant(d)
	}
}

// flow returns what the queue tells apart as the workflow, with the lock held.
func (r *Resource) flow(now mono.Time, workflow string) *node.Flow {
	w, fresh := r.flows.Of(now, workflow)
	if fresh {
		r.queue.SetShare(w.Number, 1) // whosever it was before
	}
	return w
}

// refuse counts a refusal and releases the lock, which is held when it is called.
func (r *Resource) refuse(reason work.Reason, pushback time.Duration) *Refusal {
	r.stats.Refused[reason]++
	r.mu.Unlock()
	return &Refusal{Reason: reason, Pushback: pushback}
}

// gone is the refusal of a request whose context has ended.
func (r *Resource) gone(ctx context.Context) *Refusal {
	cause := Ended(ctx)
	reason := work.Canceled
	if errors.Is(cause, context.DeadlineExceeded) {
		reason = work.Expired
	}
	r.mu.Lock()
	refusal := r.refuse(reason, -1)
	refusal.cause = cause
	return refusal
}

// outcome turns what was decided into what Acquire returns.
func (h *Hold) outcome(reason work.Reason, cause error) (*Hold, error) {
	if reason == work.None {
		return h, nil
	}
	refusal := &Refusal{Reason: reason, Pushback: -1, cause: cause}
	if reason == work.Draining { // all others that come to who waits are final
		refusal.Pushback = drainPushback
	}
	return nil, refusal
}

// giveUp ends a wait because ctx did.
func (h *Hold) giveUp(ctx context.Context) (*Hold, error) {
	r := h.r
	r.mu.Lock()
	if r.queue.Remove(&h.task) {
		h.flow.Inside--
		r.unlock(Now())
		return nil, r.gone(ctx)
	}
	r.mu.Unlock()
	if reason := <-h.wake; reason != work.None {
		return h.outcome(reason, Ended(ctx))
	}
	// It came at the same time. Nobody waits for what would be done with it.
	r.mu.Lock()
	r.stats.Granted--
	r.mu.Unlock()
	h.Release()
	return nil, r.gone(ctx)
}

// Release gives the unit back. Only the first call counts.
func (h *Hold) Release() {
	r := h.r
	r.mu.Lock()
	now := Now()
	if h.released || !h.granted {
		r.mu.Unlock()
		return
	}
	h.released = true
	busy := max(now.Sub(h.started), 0)
	more := busy - h.told
	if h.prev == nil {
		r.held = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
	var waiters []*Hold
	if len(h.waiters) > 0 {
		waiters = append(waiters, h.waiters...)
		r.stuck--
	}
	h.flow.Inside--
	r.free++
	r.stats.Busy += busy
	r.queue.Settle(&h.task, busy)
	r.serve(now)
	gate := r.gate
	r.unlock(now)
	r.use(gate, h.workflow, more)
	for _, w := range waiters {
		w.repay(now)
	}
}

// serve hands out what is free and drops who cannot meet his deadline. It is
// called with the lock held.
func (r *Resource) serve(now mono.Time) {
	for t := r.queue.Expired(now); t != nil; t = r.queue.Expired(now) {
		r.drop(now, t)
	}
	for r.free > 0 {
		t, run := r.queue.Next(now)
		if t == nil {
			break
		}
		if !run {
			r.drop(now, t)
			continue
		}
		h := t.Owner.(*Hold)
		h.granted, h.started = true, now
		if h.next = r.held; h.next != nil {
			h.next.prev = h
		}
		r.held = h
		r.free--
		r.stats.Granted++
		r.stats.Waited += max(now.Sub(t.Arrived), 0)
		h.tell(work.None)
	}
}

// drop refuses a task that came out of the queue.
func (r *Resource) drop(now mono.Time, t *schedule.Task) {
	reason := work.Infeasible
	if t.Deadline <= now {
		reason = work.Expired
	}
	r.dismiss(t.Owner.(*Hold), reason)
}

func (r *Resource) dismiss(h *Hold, reason work.Reason) {
	h.flow.Inside--
	r.stats.Refused[reason]++
	h.tell(reason)
}

// tell says what was decided: to Acquire itself, or to the goroutine that waits.
func (h *Hold) tell(reason work.Reason) {
	if h.wake == nil {
		h.reason = reason
		return
	}
	h.wake <- reason // never blocks: one decision a hold
}

// unlock starts the timer if it must fire earlier than it would, and releases the
// lock.
func (r *Resource) unlock(now mono.Time) {
	at := r.queue.NextWake()
	if r.held != nil && (r.onUse != nil || r.gate != nil || r.queue.Len() > 0) {
		at = min(at, now.Add(chargeEvery))
	}
	if !r.closed && at < r.armed {
		r.armed = at
		r.timer.Reset(max(at.Sub(now), 0))
	}
	r.mu.Unlock()
}

func (r *Resource) onTimer() {
	type use struct {
		workflow string
		busy     time.Duration
	}
	var uses []use
	r.mu.Lock()
	now := Now()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.armed = mono.Never
	for h := r.held; h != nil; h = h.next {
		busy := now.Sub(h.started)
		if busy-h.told < chargeEvery {
			continue
		}
		r.queue.Charge(&h.task, busy)
		uses = append(uses, use{h.workflow, busy - h.told})
		h.told = busy
	}
	r.serve(now)
	gate := r.gate
	r.unlock(now)
	for _, u := range uses {
		r.use(gate, u.workflow, u.busy)
	}
}

// use tells, outside the lock, for how long a workflow held the resource.
func (r *Resource) use(gate func(string, time.Duration), workflow string, busy time.Duration) {
	if busy <= 0 {
		return
	}
	if r.onUse != nil {
		r.onUse(workflow, busy)
	}
	if gate != nil {
		gate(workflow, busy)
	}
}

// watch has a gate told of every use; false if one is already.
func (r *Resource) watch(use func(string, time.Duration)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil {
		return false
	}
	r.gate = use
	return true
}

// SetWeight changes what a class gets relative to the others: see
// schedule.Queue.SetWeight.
func (r *Resource) SetWeight(class work.Class, weight float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.SetWeight(class, weight)
}

// SetShare changes what a workflow gets of what its class gets, 1 at first, and
// makes it one that is told apart from now on. It reports false, and does nothing,
// without Queue.Fair, for a share out of range (schedule.MinWeight to MaxWeight),
// and when no more workflows can be told apart.
func (r *Resource) SetShare(workflow string, share float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := Now()
	w := r.flow(now, workflow)
	if w.Name != workflow || !r.queue.SetShare(w.Number, share) {
		return false
	}
	w.Pinned = true
	return true
}

// Stats returns the resource's state.
func (r *Resource) Stats() ResourceStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := Now()
	s := r.stats
	s.Capacity, s.Held, s.Waiting = r.capacity, r.capacity-r.free, r.queue.Len()
	if t := r.queue.Oldest(); t != nil {
		s.Delay = max(now.Sub(t.Arrived), 0)
	}
	return s
}

// Close refuses what waits and what comes, and stops the timer. Holds stay valid.
// Further calls do nothing.
func (r *Resource) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.timer.Stop()
	for t := r.queue.Oldest(); t != nil; t = r.queue.Oldest() {
		r.queue.Remove(t)
		r.dismiss(t.Owner.(*Hold), work.Draining)
	}
}
