package model

import (
	"bufio"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/wire"
)

// World is one simulated world. It is not safe for concurrent use.
type World struct {
	cfg      Config
	engine   sim.Engine[event]
	clients  []client
	groupOf  []int // first client of each group
	requests []*request
	free     []int32
	notes    []note
	freeNote []int32

	door    baseline.Door
	life    int
	alive   bool
	station station
	armed   mono.Time
	inQueue int
	// zombies are the accounts of connections that clients have left and the
	// server has not noticed.
	zombies map[identity]*credit.Client

	stop    mono.Time
	report  Report
	busy    float64
	message float64
	log     *bufio.Writer
	err     error
}

// note is a message that belongs to no request: a grant or a report of demand.
type note struct {
	client int32
	conn   int32
	grant  wire.Grant
	demand int
}

// identity names one connection of one client.
type identity struct{ client, conn int32 }

// event is what happens next. It holds no pointer.
type event struct {
	kind eventKind
	who  int32
	arg  int32 // a connection, a run of a core or a use of a request
}

type eventKind uint8

const (
	arrive           eventKind = iota // who: client
	wakeClient                        // who: client
	wakeServer                        //
	requestAtServer                   // who: request
	demandAtServer                    // who: note
	finishJob                         // who: core, arg: run
	replyAtClient                     // who: request
	grantAtClient                     // who: note
	connectAtServer                   // who: client, arg: connection
	hangupAtServer                    // who: client, arg: connection
	tryAgain                          // who: request, arg: use
	giveUp                            // who: request, arg: use
	cancelAtServer                    // who: request, arg: use
	strike                            // who: fault
	restart                           //
	connectionsBreak                  // arg: life
	join                              // who: client
	depart                            // who: client
	finishPoll                        // who: request, arg: use
)

var eventNames = [...]string{"arrive", "wake-client", "wake-server", "request", "demand", "finish", "reply", "grant",
	"connect", "hangup", "retry", "give-up", "cancel", "fault", "restart", "break", "join", "depart", "poll"}

// New builds a world, or returns every mistake in cfg.
func New(cfg Config) (*World, error) {
	if err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	w := &World{cfg: cfg, armed: mono.Never, stop: origin.Add(cfg.Length),
		zombies: map[identity]*credit.Client{}, station: newStation(cfg.Server.Cores, 0)}
	w.engine.Advance(origin)
	if cfg.Log != nil {
		w.log = bufio.NewWriter(cfg.Log)
	}
	w.report.Groups = make([]Count, len(cfg.Groups))
	if cfg.Bin > 0 {
		w.report.BinLength = cfg.Bin
		w.report.Bins = make([]Count, (cfg.Length+cfg.Bin-1)/cfg.Bin)
	}
	if err := w.startServer(); err != nil {
		return nil, err
	}
	n := 0
	for _, g := range cfg.Groups {
		n += g.Clients
	}
	w.clients = make([]client, n)
	id := 0
	for gi, g := range cfg.Groups {
		w.groupOf = append(w.groupOf, id)
		for k := range g.Clients {
			c := &w.clients[id]
			*c = client{group: gi, kind: g.Kind, armed: mono.Never, tokens: 1}
			c.stats.WaitingSince = mono.Never
			c.arrivals = arrivals{load: &w.cfg.Groups[gi].Load, share: 1 / float64(g.Clients), index: k, turn: g.Clients,
				rng: sim.Chance(cfg.Seed, drawArrivals, id)}
			c.work = sim.Chance(cfg.Seed, drawWork, id)
			c.net = sim.Chance(cfg.Seed, drawNetwork, id)
			c.retry = sim.Chance(cfg.Seed, drawRetry, id)
			c.churn = sim.Chance(cfg.Seed, drawChurn, id)
			w.connect(int32(id))
			w.nextArrival(int32(id))
			if g.Churn.Stay > 0 {
				w.after(time.Duration(c.churn.ExpFloat64()*float64(g.Churn.Stay)), event{depart, int32(id), 0})
			}
			id++
		}
	}
	for i, f := range cfg.Faults {
		w.engine.At(origin.Add(f.At), event{strike, int32(i), 0})
	}
	return w, w.err
}

// Run runs the world to its end and reports.
func (w *World) Run() (*Report, error) {
	for w.Step() {
	}
	return w.Report()
}

// Step lets the next event happen. It returns false at the end of the world, or
// after an error.
func (w *World) Step() bool {
	if w.err != nil {
		return false
	}
	ev, ok := w.engine.Next(w.stop)
	if !ok {
		w.engine.Advance(w.stop)
		return false
	}
	if w.log != nil {
		fmt.Fprintf(w.log, "%d %s %d %d\n", int64(w.engine.Now()-origin), eventNames[ev.kind], ev.who, ev.arg)
	}
	w.handle(ev)
	if w.cfg.Hooks.Event != nil {
		w.cfg.Hooks.Event(w)
	}
	return w.err == nil
}

// Report returns what happened so far.
func (w *World) Report() (*Report, error) {
	if w.log != nil {
		if err := w.log.Flush(); err != nil && w.err == nil {
			w.err = fmt.Errorf("model: writing the log: %w", err)
		}
	}
	r := w.report
	r.Seconds = math.Max(w.engine.Now().Sub(origin.Add(w.cfg.Warmup)).Seconds(), 0)
	r.Total = Count{}
	for i := range r.Groups {
		r.Total.merge(&r.Groups[i])
	}
	r.Clients = make([]ClientStats, len(w.clients))
	for i := range w.clients {
		r.Clients[i] = w.clients[i].stats
	}
	r.Events = w.engine.Done()
	cores := float64(w.engine.Now().Sub(origin)) * float64(w.cfg.Server.Cores)
	r.Busy, r.Messages = w.busy/cores, w.message/cores
	return &r, w.err
}

// Now returns the present, as policies see it.
func (w *World) Now() mono.Time { return w.engine.Now() }

// Since returns the simulated time since the start.
func (w *World) Since() time.Duration { return w.engine.Now().Sub(origin) }

func (w *World) after(d time.Duration, ev event) { w.engine.At(w.engine.Now().Add(d), ev) }

func durationOf(ns float64) time.Duration {
	return time.Duration(math.Min(math.Max(math.Round(ns), 0), math.MaxInt64/4))
}

func (w *World) handle(ev event) {
	switch ev.kind {
	case arrive:
		w.arrive(ev.who)
	case wakeClient:
		c := &w.clients[ev.who]
		if c.armed == w.Now() {
			c.armed = mono.Never
			if c.up {
				c.sender.OnWake(w.Now())
				w.pumpClient(ev.who)
			}
		}
	case wakeServer:
		if w.alive && w.armed == w.Now() {
			w.armed = mono.Never
			w.door.OnWake(w.Now())
			w.pumpServer()
		}
	case requestAtServer:
		w.requestAtServer(w.requests[ev.who])
	case demandAtServer:
		w.demandAtServer(ev.who)
	case finishJob:
		w.finishJob(ev.who, ev.arg)
	case finishPoll:
		w.finishPoll(ev.who, ev.arg)
	case replyAtClient:
		w.replyAtClient(w.requests[ev.who])
	case grantAtClient:
		n := w.takeNote(ev.who)
		if c := &w.clients[n.client]; c.up && c.conn == n.conn {
			c.sender.OnGrant(w.Now(), n.grant)
			w.pumpClient(n.client)
		}
	case connectAtServer:
		w.accept(ev.who, ev.arg)
	case hangupAtServer:
		w.hangup(ev.who, ev.arg)
	case tryAgain:
		if r := w.requests[ev.who]; r.gen == ev.arg && r.open {
			w.submit(r)
			w.pumpClient(r.client)
		}
	case giveUp:
		w.giveUp(ev.who, ev.arg)
	case cancelAtServer:
		w.cancelAtServer(ev.who, ev.arg)
	case strike:
		w.strike(ev.who)
	case restart:
		w.err = w.startServer()
		if w.cfg.Hooks.Restarted != nil {
			w.cfg.Hooks.Restarted(w)
		}
	case connectionsBreak:
		for i := range w.clients {
			if w.clients[i].up {
				w.drop(int32(i), true)
				w.connect(int32(i))
			}
		}
	case join:
		w.join(ev.who)
	case depart:
		w.depart(ev.who)
	}
}

// strike lets a fault happen.
func (w *World) strike(i int32) {
	f := &w.cfg.Faults[i]
	if f.Speed > 0 && w.alive {
		w.station.setSpeed(w.Now(), f.Speed)
		for c := range w.station.cores {
			if k := &w.station.cores[c]; k.busy {
				w.engine.At(w.station.ends(int32(c)), event{finishJob, int32(c), k.run})
			}
		}
	}
	if f.KillServer > 0 && w.alive {
		w.killServer()
		w.after(f.KillServer, event{kind: restart})
		w.after(w.cfg.Network.Delay, event{kind: connectionsBreak})
	}
	if f.KillClients > 0 {
		rng := sim.Chance(w.cfg.Seed, drawFault, int(i))
		notice := f.Notice
		if notice == 0 {
			notice = 100 * time.Millisecond
		}
		for id := range w.clients {
			c := &w.clients[id]
			if !c.up || rng.Float64() >= f.KillClients {
				continue
			}
			w.leave(int32(id), notice)
			if f.Back > 0 {
				w.after(f.Back, event{join, int32(id), 0})
			}
		}
	}
}

// count returns the counters that an occurrence belongs to: those of its group,
// if it counts, and those of its bin.
func (w *World) count(group int, f func(*Count)) {
	since := w.Since()
	if since >= w.cfg.Warmup {
		f(&w.report.Groups[group])
	}
	if w.cfg.Bin > 0 {
		if i := int(since / w.cfg.Bin); i < len(w.report.Bins) {
			f(&w.report.Bins[i])
		}
	}
}

// newRequest returns a request object with its slot in the slab.
func (w *World) newRequest() *request {
	if n := len(w.free); n > 0 {
		r := w.requests[w.free[n-1]]
		w.free = w.free[:n-1]
		*r = request{id: r.id, gen: r.gen + 1}
		return r
	}
	r := &request{id: int32(len(w.requests))}
	w.requests = append(w.requests, r)
	return r
}

// release makes r free for other use if nothing refers to it any more.
func (w *World) release(r *request) {
	if !r.open && !r.inNet {
		w.free = append(w.free, r.id)
		r.gen++
	}
}

func (w *World) newNote(n note) int32 {
	if k := len(w.freeNote); k > 0 {
		i := w.freeNote[k-1]
		w.freeNote = w.freeNote[:k-1]
		w.notes[i] = n
		return i
	}
	w.notes = append(w.notes, n)
	return int32(len(w.notes) - 1)
}

func (w *World) takeNote(i int32) note {
	w.freeNote = append(w.freeNote, i)
	return w.notes[i]
}

// Objects for checks.

// Door returns the server's policy, nil while the server is dead.
func (w *World) Door() baseline.Door {
	if !w.alive {
		return nil
	}
	return w.door
}

// ClientView is what checks may see of a client.
type ClientView struct {
	// Kind is how it behaves, Up whether it is connected, in its own view.
	Kind Kind
	Up   bool
	// Sender is its policy, Account the server's side of its connection, nil if
	// the server has none.
	Sender  baseline.Sender
	Account *credit.Client
	// Outstanding is its requests sent and not ended, counted by the world.
	Outstanding int
	// Inside is its requests not ended, those waiting in its sender included.
	Inside int
	// Stats is what became of its requests.
	Stats ClientStats
}

// Clients calls f for every client.
func (w *World) Clients(f func(id int, c ClientView)) {
	outstanding := make([]int, len(w.clients))
	for _, r := range w.requests {
		if r.open && r.phase == sent && r.conn == w.clients[r.client].conn {
			outstanding[r.client]++
		}
	}
	for id := range w.clients {
		c := &w.clients[id]
		f(id, ClientView{c.kind, c.up, c.sender, c.account, outstanding[id], c.inside, c.stats})
	}
}

// Audit compares the world's books: tickets in the queue and in the station as
// the door was told, requests as clients count them. It returns the first
// difference.
func (w *World) Audit() error {
	queue, station, pending := 0, 0, 0
	inside := make([]int, len(w.clients))
	for _, r := range w.requests {
		switch r.atServer {
		case inQueue:
			queue++
		case inStation:
			station++
		}
		if r.atServer == inQueue || r.atServer == inStation {
			if account, ok := w.accountOf(r); ok && account != nil {
				pending++
			}
		}
		if r.open {
			inside[r.client]++
		}
	}
	if queue != w.inQueue || station != w.station.executed {
		return fmt.Errorf("model: %d tickets wait and %d run by their state, %d and %d by the books",
			queue, station, w.inQueue, w.station.executed)
	}
	waiting := queue
	switch g := w.door.(type) {
	case interface{ Waiting() int }:
		waiting = g.Waiting()
		if g, ok := g.(interface{ Shaping() int }); ok {
			waiting += g.Shaping()
		}
	}
	if w.alive && waiting != queue {
		return fmt.Errorf("model: the door says %d tickets wait, %d were told to", waiting, queue)
	}
	if g, ok := w.door.(interface{ InUse() int }); ok && w.alive && g.InUse() != station {
		return fmt.Errorf("model: the door says %d tickets run, %d were told to", g.InUse(), station)
	}
	if g, ok := w.door.(interface{ Pool() *credit.Pool }); ok && w.alive && g.Pool().Pending() != pending {
		return fmt.Errorf("model: the pool says %d requests are pending, %d are", g.Pool().Pending(), pending)
	}
	for i := range w.clients {
		if c := &w.clients[i]; c.inside != inside[i] {
			return fmt.Errorf("model: client %d has %d requests inside by their state, %d by its books", i, inside[i], c.inside)
		}
	}
	return nil
}
