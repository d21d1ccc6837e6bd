package mesh

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/work"
)

// World is one simulated world. It is not safe for concurrent use.
type World struct {
	cfg         Config
	engine      sim.Engine[event]
	program     program
	services    []service
	processes   []*process
	clients     []client
	firstClient []int32
	mixes       []groupMix
	links       []*link
	policed     []*link // that ever had a policy
	timers      timers

	// Records that are used again.
	calls     []*call
	freeCalls []int32
	roots     []*root
	freeRoots []int32
	freeHolds *hold
	notes     []note
	freeNotes []int32

	alone      *World    // for isolated
	manners    []manner  // of it, per workflow
	walker     *walker   // of alone
	typicals   []float64 // per workflow, ns
	estimates  []float64 // per stage, ns alone
	inside     int       // requests not ended
	lotteries  int
	methods    []string // per stage, what classifiers call it
	shares     []*ProcessShare
	hosts      []*host
	cores      []core
	chores     []chore
	freeChores []int32
	jitter     *rand.Rand
	spoiler    *rand.Rand
	tally      *tally // nil: not described
	stop       mono.Time
	report     Report
	watched    []*process // whose rates are reported
	log        *bufio.Writer
	err        error
}

// groupMix is what the clients of a group ask for, and how they reach the
// entries.
type groupMix struct {
	mixture
	entry []callee // per workflow
	slots []int32  // the services
}

// origin is the instant at which a world starts: not zero, as a server is not
// started at the origin of its machine's clock.
const origin = mono.Time(time.Hour)

// noService is where clients are.
const noService = -1

// event is what happens next. It holds no pointer.
type event struct {
	kind eventKind
	who  int32
	arg  int32 // a use of a record, or a life of a process
}

type eventKind uint8

const (
	arrival          eventKind = iota // who: client
	setUsers                          // who: group, arg: users
	requestAtProcess                  // who: call
	endWork                           // who: call
	resume                            // who: call
	replyAtCaller                     // who: call
	refusedAtCaller                   // who: call
	cancelAtProcess                   // who: call
	timeouts                          //
	deadline                          // who: root
	tryAgain                          // who: root
	wakeDoor                          // who: process, arg: life
	wakeLink                          // who: link
	grantAtLink                       // who: note
	demandAtProcess                   // who: note
	strike                            // who: fault
	restart                           // who: process
	linksBreak                        // who: process
	linksBack                         // who: process
	pollAtProcess                     // who: note
	rateAtCaller                      // who: note
	endBin                            //
	wakeShare                         // who: process, arg: life
	wakeQueue                         // who: process, arg: resource
	groupArrival                      // who: group
	joinNetwork                       // who: client
	endSlice                          // who: core, arg: run
	endWait                           // who: call
	faultBegins                       // who: fault
	faultEnds                         // who: fault
	endTallyBin                       //
	endChore                          // who: process, arg: chore
	hangUp                            // who: link
	depart                            // who: client
	rejoinNetwork                     // who: client, arg: 1 if of its own accord
	endThronged                       // who: process, arg: its throng's armed
)

var eventNames = [...]string{"arrival", "users", "request", "end-work", "resume", "reply", "refused", "cancel", "timeouts",
	"deadline", "retry", "wake-door", "wake-link", "grant", "demand", "fault", "restart", "break", "back",
	"poll", "rate", "bin", "wake-share", "wake-queue", "group-arrival", "join", "end-slice", "end-wait", "fault-begins", "fault-ends", "tally-bin", "end-chore", "hang-up", "depart", "rejoin", "end-thronged"}

// New builds a world, or returns every mistake in cfg.
func New(cfg Config) (*World, error) {
	if err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	w := &World{cfg: cfg, stop: origin.Add(cfg.Length)}
	w.engine.Lanes(numLanes)
	w.engine.Advance(origin)
	if cfg.Log != nil {
		w.log = bufio.NewWriter(cfg.Log)
	}
	p, down := compile(&w.cfg)
	w.program = p
	w.startReport()
	w.objectives()
	for si := range w.cfg.Services {
		s := &w.cfg.Services[si]
		run := service{pick: s.Pick, first: int32(len(w.processes))}
		for i := range s.Processes {
			p := &process{id: int32(len(w.processes)), speed: 1}
			p.node = newNode(Place{Service: s.Name, Process: i, Workers: s.Resources[0].Capacity, Resources: s.Resources, Objective: s.Objective},
				int32(si), len(down[si]), cfg.Seed^uint64(p.id))
			p.process, p.place.Threads = p, w.threads(int32(si))
			w.processes = append(w.processes, p)
			w.place(p)
			run.processes = append(run.processes, p)
			w.boot(p)
		}
		w.services = append(w.services, run)
	}
	w.startClients()
	if err := w.startDescribed(); err != nil {
		return nil, err
	}
	for i, f := range w.cfg.Faults {
		w.engine.At(origin.Add(f.At), event{strike, int32(i), 0})
	}
	return w, w.err
}

func newNode(at Place, service int32, slots int, seed uint64) node {
	n := node{place: at, service: service, links: make([][]*link, slots), turn: make([]uint32, slots)}
	for i := range n.turn {
		n.turn[i] = uint32(mix(seed + uint64(i)<<40))
	}
	return n
}

func (w *World) startClients() {
	names := map[string]int32{}
	for i := range w.cfg.Workflows {
		names[w.cfg.Workflows[i].Name] = int32(i)
	}
	for gi := range w.cfg.Groups {
		g := &w.cfg.Groups[gi]
		m := groupMix{entry: make([]callee, len(w.cfg.Workflows))}
		sum := 0.0
		for _, part := range g.Mix {
			sum += part.Weight
			f := names[part.Workflow]
			m.upTo, m.workflow = append(m.upTo, sum), append(m.workflow, f)
			m.entry[f] = w.program.roots[f]
			m.entry[f].slot = slotOf(&m.slots, m.entry[f].service)
		}
		w.mixes = append(w.mixes, m)
		w.firstClient = append(w.firstClient, int32(len(w.clients)))
		for k := range g.Clients {
			id := len(w.clients)
			c := client{group: int32(gi), index: k, tokens: 1, idle: true, stopped: true,
				rng: sim.Chance(w.cfg.Seed, streamArrivals, id), chance: draws(sim.Chance(w.cfg.Seed, streamWork, id).Uint64())}
			c.node = newNode(Place{Process: k}, noService, len(m.slots), w.cfg.Seed^^uint64(id))
			c.flood, c.via = g.Flood, int32(id)
			w.settleClient(&c, gi, k)
			w.clients = append(w.clients, c)
		}
		for k := range g.Clients {
			if !g.Load.closed() && w.cfg.described == nil {
				w.scheduleArrival(w.firstClient[gi] + int32(k))
			}
		}
		for _, u := range g.Load.Users {
			if w.cfg.described != nil {
				break // they start as they connect
			}
			w.engine.At(origin.Add(u.At), event{setUsers, int32(gi), int32(u.N)})
		}
	}
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
	if w.cfg.Event != nil {
		w.cfg.Event(w)
	}
	return w.err == nil
}

// Now returns the present, as policies see it.
func (w *World) Now() mono.Time { return w.engine.Now() }

// Since returns the simulated time since the start.
func (w *World) Since() time.Duration { return w.engine.Now().Sub(origin) }

func (w *World) after(d time.Duration, ev event) { w.engine.At(w.engine.Now().Add(d), ev) }

func (w *World) handle(ev event) {
	switch ev.kind {
	case arrival:
		w.clientArrival(ev.who)
	case setUsers:
		w.users(ev.who, ev.arg)
	case requestAtProcess, endWork, resume, replyAtCaller, refusedAtCaller, cancelAtProcess:
		if c := w.calls[ev.who]; c.gen == ev.arg {
			w.handleCall(ev.kind, c)
		}
	case timeouts:
		w.runTimers()
	case deadline:
		if r := w.roots[ev.who]; r.gen == ev.arg && r.open {
			w.deadlineAt(r)
		}
	case tryAgain:
		if r := w.roots[ev.who]; r.gen == ev.arg && r.open {
			w.attempt(r)
		}
	case wakeDoor:
		if p := w.processes[ev.who]; p.alive && p.life == int(ev.arg) && p.armed == w.Now() {
			p.armed = mono.Never
			w.wakeDoorOf(p)
		}
	case wakeLink:
		if l := w.links[ev.who]; l.armed == w.Now() {
			l.armed = mono.Never
			if l.sender != nil && !l.down {
				l.sender.OnWake(w.Now())
				w.pumpLink(l)
			}
		}
	case grantAtLink:
		if n := w.takeNote(ev.who); n.link.sender != nil && !n.link.down && n.life == n.link.to.life {
			n.link.sender.OnGrant(w.Now(), n.grant)
			w.pumpLink(n.link)
		}
	case demandAtProcess:
		w.demandArrives(ev.who)
	default:
		w.handleOther(ev)
	}
}

// handleOther handles faults, and what rates, shares and queues do by themselves.
func (w *World) handleOther(ev event) {
	switch ev.kind {
	case strike:
		w.strike(&w.cfg.Faults[ev.who])
	case restart:
		w.restart(w.processes[ev.who])
	case linksBreak:
		w.linksBreak(w.processes[ev.who])
	case linksBack:
		w.linksBack(w.processes[ev.who])
	case pollAtProcess:
		w.answerPoll(w.takeNote(ev.who))
	case rateAtCaller:
		w.pollAnswered(w.takeNote(ev.who))
	case endBin:
		w.noteRates()
	case wakeShare:
		if p := w.processes[ev.who]; p.alive && p.life == int(ev.arg) {
			w.wakeShareOf(p)
		}
	case wakeQueue:
		// After a restart the queue is another one, and looking is harmless.
		if r := &w.processes[ev.who].resources[ev.arg]; r.process.alive && r.armed <= w.Now() {
			r.armed = mono.Never
			w.expire(r)
		}
	default:
		w.handleDescribed(ev)
	}
}

func (w *World) handleCall(kind eventKind, c *call) {
	switch kind {
	case requestAtProcess:
		if p := c.process; !c.canceled && p.alive && w.charge(p, job{kind: jobTake, who: c.id, gen: c.gen}) {
			c.state = arriving
			return
		}
		w.requestAtProcess(c)
	case endWork:
		if c.state == working {
			w.endWork(c)
		}
	case resume:
		if c.state == resuming {
			w.resume(c)
		}
	case replyAtCaller:
		if c.open && w.charge(c.link.from.process, job{kind: jobHear, who: c.id, gen: c.gen}) {
			return
		}
		w.replyAtCaller(c)
	case refusedAtCaller:
		if c.open && c.phase == refused {
			w.conclude(c)
		}
	case cancelAtProcess:
		w.cancelAtProcess(c)
	}
}

func (w *World) newNote(n note) int32 {
	if k := len(w.freeNotes); k > 0 {
		i := w.freeNotes[k-1]
		w.freeNotes = w.freeNotes[:k-1]
		w.notes[i] = n
		return i
	}
	w.notes = append(w.notes, n)
	return int32(len(w.notes) - 1)
}

func (w *World) takeNote(i int32) note {
	w.freeNotes = append(w.freeNotes, i)
	return w.notes[i]
}

// priorityOf ranks a request at its entry; all its calls carry the rank.
func (w *World) priorityOf(client int32, chance draws) work.Priority {
	if d := w.cfg.described; d != nil && !w.cfg.Control.Ranked {
		return d.world.Clients[w.clients[client].group].Priority
	}
	return work.Priority(chance.of(drawPriority, 0).below(int(work.MaxPriority) + 1))
}
