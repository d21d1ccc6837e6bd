package credit

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Pool divides a server's credits among its clients. A Pool is not safe for
// concurrent use. No call allocates but Register, and the first that says something new of a
// client; every call but Check takes constant time.
type Pool struct {
	cfg, asked Config // with defaults, and as configured
	total      float64
	issued     int
	clients    int
	pending    int
	registered uint64  // clients so far
	kept       int     // of the issued, what modest clients have: not of the pool
	demand     int     // sum over the clients
	peak       float64 // of pending, decaying
	used       float64 // most credits seen in use, decaying: see ceiling
	wanting    int     // windows of the clients with demand
	delay      time.Duration
	worst      time.Duration // largest sample of the running interval
	calm       int           // intervals of low delay in a row
	late       int           // intervals over the target in a row
	arrived    int           // requests in the running interval
	shed       int           // and how many of them were refused
	rate       float64       // requests per interval, smoothed
	quiet      time.Duration // revive as of the last change of what it depends on: each grant says it
	refused    float64       // share refused, smoothed over intervals
	// tolerated is the share that may be; see Tolerate.
	tolerated float64
	excused   bool
	wake      mono.Time
	// Clients that asked for something, their parties, and those of which a workflow is
	// known.
	everyone, parties, known census
	holding                  int // parties of whom somebody has something or wants it
	workflows                [maxWorkflows]workflow
	peers                    map[uint64]*party
	season                   uint32
	seasonEnds               mono.Time
	era                      uint64 // ends whenever what is due to somebody may have changed
	// turnaround is the time from a reply to the request that waited for its credit, smoothed: what a change of a window
	// takes to be felt.
	turnaround time.Duration
	hungry     list // drained, demand known
	idle       list // drained, demand unknown
	asking     list // drained, of ByReply, told when to ask
	absent     list // drained, of ByReply, and did not ask then
	heard      list // least recently heard first
	dirty      list
	askAt      mono.Time // the next client of ByReply that is refused asks again
}

// NewPool returns an empty pool, or every mistake in its configuration.
func NewPool(asked Config) (*Pool, error) {
	cfg, err := asked.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{
		cfg:    cfg,
		asked:  asked,
		total:  float64(cfg.MinTotal),
		calm:   calmIntervals,
		season: 2, // a new client was active in none before
		peers:  map[uint64]*party{},
		hungry: list{which: linkDrained, mark: 1},
		idle:   list{which: linkDrained, mark: 2},
		asking: list{which: linkDrained, mark: 5},
		absent: list{which: linkDrained, mark: 6},
		heard:  list{which: linkHeard, mark: 3},
		dirty:  list{which: linkDirty, mark: 4},
	}
	for i := range p.workflows {
		p.workflows[i].share = 1
	}
	return p, nil
}

// SetObjective changes Config.TargetDelay and Objective, and what follows from them unless it was
// configured. The pool, the windows and what was learned of the clients stay. A client hears of the new
// objective with its next grant, which is at most sixteen replies away. With a mistake nothing changes.
func (p *Pool) SetObjective(target, objective time.Duration) error {
	asked := p.asked
	asked.TargetDelay, asked.Objective = target, objective
	cfg, err := asked.withDefaults()
	if err != nil {
		return err
	}
	p.rate *= float64(cfg.Interval) / float64(p.cfg.Interval) // it counts by the interval
	p.cfg, p.asked = cfg, asked
	return nil
}

// Total returns the size of the pool in credits. It may be smaller than Issued
// while windows shrink, one request a reply.
func (p *Pool) Total() int { return int(p.total) }

// Issued returns the sum of all windows.
func (p *Pool) Issued() int { return p.issued }

// Clients returns the number of registered clients.
func (p *Pool) Clients() int { return p.clients }

// Pending returns the requests of registered clients at the server.
func (p *Pool) Pending() int { return p.pending }

// Demand returns the further requests that all clients together last said they
// had ready.
func (p *Pool) Demand() int { return p.demand }

// Drained returns the clients that have no credit and nothing pending, and how
// many of them are known to have requests ready.
func (p *Pool) Drained() (clients, hungry int) { return p.waiting() + p.resting(), p.waiting() }

// Delay returns the queueing delay of the last whole interval, the one the pool
// acted on.
func (p *Pool) Delay() time.Duration { return p.delay }

// Refused returns the share of the requests that the server refused for want of
// time, smoothed over about eight intervals.
func (p *Pool) Refused() float64 { return p.refused }

// Config returns the configuration with its defaults filled in.
func (p *Pool) Config() Config { return p.cfg }

// Interval is that of Config.
func (p *Pool) Interval() time.Duration { return p.cfg.Interval }

// NextWake returns the instant of the next OnWake that would do something, or
// mono.Never. While it returns Never the driver may leave the pool alone.
func (p *Pool) NextWake() mono.Time {
	if p.clients == 0 {
		return mono.Never
	}
	return p.wake
}

// Due reports whether OnWake would do something at now.
func (p *Pool) Due(now mono.Time) bool { return p.clients > 0 && now >= p.wake }

// Wanted reports whether a client waits for the next interval: one without a credit or, if the last
// request came at most a lease ago, at seen, one that wants more.
func (p *Pool) Wanted(seen mono.Time) bool {
	return p.waiting() > 0 || p.idle.head != nil || p.demand > 0 && p.NextWake() <= seen.Add(p.cfg.Lease)
}

// OnWake ends the interval if it is over and resizes the pool from d, the
// queueing delay at this instant, and the samples of OnDelay, of which the
// largest counts. Early and repeated calls do nothing; a late call ends one
// interval, not several, because one stale sample must not be acted on twice.
func (p *Pool) OnWake(now mono.Time, d time.Duration) {
	if now < p.wake {
		return
	}
	// No sooner than the last change was felt, or it is made again and again: without this, callers at 1.4 times the capacity
	// knew of a refusal after 188 µs, not 34 to 47 (lab run breakwater/refusal).
	p.wake = now.Add(max(p.cfg.Interval, min(p.turnaround, p.cfg.TargetDelay)))
	d = max(d, p.worst, 0)
	p.delay, p.worst = d, 0
	if now >= p.seasonEnds {
		p.nextSeason()
		p.seasonEnds = now.Add(p.cfg.Lease)
	}
	p.divide()
	p.rate += (float64(p.arrived) - p.rate) / 16
	p.quiet = p.revive()
	if p.arrived > 0 && !p.excused {
		p.refused += (min(float64(p.shed)/float64(p.arrived), 1) - p.refused) / 8
	}
	p.arrived, p.shed = 0, 0
	if !p.excused {
		p.resize(d)
	}
	p.peak = max(float64(p.pending), p.peak*(1-1.0/64))
	p.used = max(float64(p.wanting), p.used*(1-1.0/usedFor))
	p.reclaim(now)
	p.feed(now)
}

// Check returns an error if an invariant of the package comment is broken. It
// walks all clients and is meant for tests and simulations.
func (p *Pool) Check() error {
	var issued, pending, demand, clients, drained, kept, holding, wanting int
	ofParty := map[*party][3]int{} // clients, idle, windows
	for c := p.heard.head; c != nil; c = c.links[linkHeard].next {
		issued += c.window
		pending += c.pending
		demand += c.demand
		if c.demand > 0 {
			wanting += c.window
		}
		clients++
		if c.standing == modest {
			kept += c.window
		}
		isIdle := c.in[linkDrained] == p.idle.mark || c.in[linkDrained] == p.absent.mark
		if c.party == nil && !isIdle {
			holding++
		} else if c.party != nil {
			of := ofParty[c.party]
			of[0], of[2] = of[0]+1, of[2]+c.window
			if isIdle {
				of[1]++
			}
			ofParty[c.party] = of
		}
		if due := p.dueNow(c); c.era == p.era && c.part != due {
			return fmt.Errorf("credit: %v is due to a client, the books say %v", due, c.part)
		}
		isDrained := c.in[linkDrained] != 0
		if isDrained {
			drained++
		}
		if want := c.window == 0 && c.pending == 0; isDrained != want {
			return fmt.Errorf("credit: window %d, pending %d: drained is %v, expected %v", c.window, c.pending, isDrained, want)
		}
		if before := c.links[linkHeard].prev; before != nil && c.heard < before.heard {
			return fmt.Errorf("credit: a client heard of at %v comes after one at %v", c.heard, before.heard)
		}
		if c.window < 0 || c.window > p.cfg.MaxWindow || c.pending < 0 {
			return fmt.Errorf("credit: window %d, pending %d out of range", c.window, c.pending)
		}
	}
	if issued != p.issued || pending != p.pending || demand != p.demand || clients != p.clients || drained != p.waiting()+p.resting() {
		return fmt.Errorf("credit: counted issued %d pending %d clients %d drained %d, the books say %d %d %d %d",
			issued, pending, clients, drained, p.issued, p.pending, p.clients, p.waiting()+p.resting())
	}
	for a, of := range ofParty { //lint:ordered any mistake will do
		if of != [3]int{int(a.clients), int(a.idle), int(a.issued)} {
			return fmt.Errorf("credit: peer %d has %v clients, idle ones and windows, the books say %d %d %d", a.number, of, a.clients, a.idle, a.issued)
		}
		if a.clients > a.idle {
			holding++
		}
	}
	if holding != p.holding {
		return fmt.Errorf("credit: %d parties have or want something, the books say %d", holding, p.holding)
	}
	if wanting != p.wanting {
		return fmt.Errorf("credit: the clients with demand have %d credits, the books say %d", wanting, p.wanting)
	}
	if kept != p.kept {
		return fmt.Errorf("credit: the modest hold %d credits, the books say %d", kept, p.kept)
	}
	return nil
}
