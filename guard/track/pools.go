package track

import (
	"hash/fnv"
	"io"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// The limits of what is taken for an exhausted pool.
const (
	// FreeAfter is how long a session must have been idle to be free: an application that waits for
	// a connection uses one again within a round trip.
	FreeAfter = 20 * time.Millisecond
	// owing is how many completions a pool must be behind its usual rate: at random so many are
	// missing once in a thousand times, e^-7.
	owing = 7
	// poolDeviations is how many deviations of a random count it must be behind as well, and how many mean deviations
	// of its usual rate: counters of servers lag by a second, and loads vary.
	poolDeviations = 3
	// mostHidden bounds the requests that are taken to wait for a pool, with an edge each to
	// everyone who has a connection.
	mostHidden = 32
)

// Pool names the connections that one application has from one place: those of its pool.
type Pool struct{ User, Application, Database, Client string }

// Owner is the Owner of the tasks of an application that has one connection from its place, and may open another for each task. It has
// the highest bit, which owners that are sessions lack.
func (p Pool) Owner() uint64 {
	h := fnv.New64a()
	for _, s := range [...]string{p.User, p.Application, p.Database, p.Client} {
		_, _ = io.WriteString(h, s+"\x00")
	}
	return h.Sum64() | 1<<63
}

// Pools tells from the server's side that an application's pool of connections is exhausted: no
// session of it is free, and less ends in it than is usual, by more than chance. Those who wait are in the
// application then, and no view shows them; what those wait for that keep the connections keeps them waiting as well. A pool that is in use all the time owes nothing: it
// may be as large as its work. The zero value is ready.
type Pools struct {
	all     map[Pool]*pool
	order   []*pool // as they were seen first
	at      mono.Time
	look    int64
	number  int64
	ended   int     // sessions that ended something at this look
	usual   float64 // completions per second
	rate    float64 // the same over costWindow
	noise   float64 // mean deviation of rate from usual
	learned time.Duration
	share   float64 // sum of the pools' shares
}

// pool is what is known of one.
type pool struct {
	name         Pool
	look, number int64
	size, free   int // sessions, at this look
	ended        int
	holders      []*Entry
	share        float64   // sessions that ended something per second while one was free
	since        mono.Time // when the last free session was seen last; 0: one is free
	usual, noise float64   // completions per second in the pool when that was, and their deviation
	served       float64   // completions since then
}

// Begin begins a look.
func (p *Pools) Begin() {
	if p.all == nil {
		p.all = map[Pool]*pool{}
	}
	p.look++
	p.ended = 0
}

// Session enters a session of a pool that is not free: the size of the pool, how many of its sessions
// are free, whether something has ended in this one since the look before, and the task that keeps it, nil if
// none does.
func (p *Pools) Session(name Pool, size, free int, ended bool, keeps *Entry) {
	q := p.all[name]
	if q == nil {
		p.number++
		q = &pool{name: name, number: p.number}
		p.all[name], p.order = q, append(p.order, q)
	}
	if q.look != p.look {
		q.look, q.ended, q.holders = p.look, 0, q.holders[:0]
	}
	if q.size, q.free = size, free; ended {
		q.ended++
		p.ended++
	}
	if keeps != nil {
		q.holders = append(q.holders, keeps)
	}
}

// hiddenRequest is the Session of the keys of requests that wait in the application.
const hiddenRequest = -2

// End ends a look at which completed tasks of all pools have ended since the one before, once t knows who waits. It
// adds to t, as waiting for a resource, the requests that wait in applications, and their edges to
// all that keep a connection of their pool.
func (p *Pools) End(t *Tracker, resource int, completed float64) {
	dt := t.at.Sub(p.at)
	known := p.at != 0 && dt > 0
	if p.at = t.at; !known {
		return
	}
	weight := 1 - math.Exp(-float64(dt)/float64(costLearning))
	kept := p.order[:0]
	for _, q := range p.order {
		if q.look != p.look {
			q.size, q.free, q.ended, q.holders = 0, 1, 0, q.holders[:0] // all of them are idle, or gone
		}
		p.enter(q, dt, weight, completed)
		if q.look != p.look && q.share < 1/costLearning.Seconds() {
			p.share -= q.share
			delete(p.all, q.name)
			continue
		}
		kept = append(kept, q)
		p.hidden(t, resource, q)
	}
	clear(p.order[len(kept):])
	if p.order = kept; len(kept) == 0 {
		p.share = 0 // without what rounding left
	}
	p.learn(dt, completed/dt.Seconds())
}

// learn enters a rate of completions, per second, of the time since the look before.
func (p *Pools) learn(dt time.Duration, rate float64) {
	weight := func(window time.Duration) float64 {
		return max(float64(dt)/float64(p.learned+dt), 1-math.Exp(-float64(dt)/float64(window)))
	}
	p.usual += weight(costLearning) * (rate - p.usual)
	p.rate += weight(costWindow) * (rate - p.rate)
	p.noise += weight(costLearning) * (math.Abs(p.rate-p.usual) - p.noise)
	p.learned += dt
}

// enter enters into one pool what ended in all of them in the time since the look before. Where no
// session is known that ended something, each pool has its usual part, and a pool that is the
// first to be seen, because its work is too short to be seen, has it all.
func (p *Pools) enter(q *pool, dt time.Duration, weight, completed float64) {
	part := 1.0
	if p.share > 0 {
		part = q.share / p.share
	}
	if q.free > 0 {
		step := weight * (float64(q.ended)/dt.Seconds() - q.share)
		q.share, p.share = q.share+step, p.share+step
		q.since = 0
		return
	}
	if q.since == 0 {
		q.since, q.usual, q.noise, q.served = p.at.Add(-dt), part*p.usual, part*p.noise, 0
	}
	if p.ended > 0 {
		part = float64(q.ended) / float64(p.ended)
	}
	q.served += part * completed
}

// hidden enters the requests of one pool.
func (p *Pools) hidden(t *Tracker, resource int, q *pool) {
	if q.since == 0 || p.learned < costWindow {
		return
	}
	lasts := t.at.Sub(q.since).Seconds()
	asked := q.usual * lasts
	owes := asked - q.served
	if owes < max(owing, poolDeviations*math.Sqrt(asked), poolDeviations*q.noise*max(lasts, costWindow.Seconds())) {
		return
	}
	for k := int64(q.served) + 1; k <= int64(q.served)+int64(min(owes, mostHidden)); k++ {
		since := q.since.Add(time.Duration(float64(k) / q.usual * float64(time.Second)))
		e := t.Task(Key{Process: q.number, Session: hiddenRequest, Work: int64(q.since) + k}, since)
		_, s := t.At(e)
		s.State = "waits in the application for a connection of its pool"
		t.Waits(e, resource, since)
		for _, h := range q.holders {
			t.Edge(e, h, resource)
		}
	}
}
