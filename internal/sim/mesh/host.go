package mesh

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// slice is the longest turn of a process on a processor while others wait. It is of
// the order of what the scheduler of Linux grants (3 ms shared by those that are ready,
// 0.75 ms at least). Processes take turns, not requests: a process with many requests
// gets no more of a machine than one with few. Ideal sharing would hide the wait that
// matters here, that of a message for the turn of its process.
const slice = float64(time.Millisecond)

// host is a machine, whose processors the processes on it take in turn.
type host struct {
	processors int
	idle       []int32 // stack of cores
	line       ring[*process]
	message    float64 // ns of processor time
	used       float64 // ns of processors, so far
}

// core is one processor of some host.
type core struct {
	host    *host
	process *process
	job     job
	since   mono.Time
	slice   float64 // ns, of the job that runs
	turn    float64 // ns left of the process's turn
	run     int32   // tells the event of this run from older ones
	busy    bool
}

// job is what a process does with a processor, in order of arrival.
type job struct {
	kind jobKind
	who  int32   // a call
	gen  int32   // its use
	left float64 // ns
}

type jobKind uint8

const (
	jobTake    jobKind = iota // receiving a call
	jobAnswer                 // sending its answer
	jobSend                   // sending a call
	jobHear                   // receiving its answer
	jobCompute                // what the call needs the processor for
	jobChore                  // a message that nothing waits for
	jobProbe                  // the process looks how long it waited
)

// charge lets p pay for a message. It reports whether the message waits for a
// processor, and handles it then; otherwise it is free.
func (w *World) charge(p *process, j job) bool {
	if p == nil || p.host == nil || p.host.message == 0 || !p.alive {
		return false
	}
	j.left = p.host.message
	w.give(p, j)
	return true
}

// give lets p do a job when it is its turn.
func (w *World) give(p *process, j job) {
	p.jobs.push(j)
	w.makeReady(p)
	w.dispatch(p.host)
}

// makeReady puts p into the line of its host if it has something to do.
func (w *World) makeReady(p *process) {
	if !p.ready && p.jobs.len() > 0 && p.pace.stops == 0 {
		p.ready = true
		p.host.line.push(p)
	}
}

// dispatch gives idle processors to waiting processes.
func (w *World) dispatch(h *host) {
	for len(h.idle) > 0 && h.line.len() > 0 {
		p := h.line.pop()
		p.ready = false
		if p.jobs.len() == 0 || p.pace.stops > 0 {
			continue
		}
		k := h.idle[len(h.idle)-1]
		h.idle = h.idle[:len(h.idle)-1]
		w.cores[k].process, w.cores[k].turn = p, slice
		w.runJob(k)
	}
}

// runJob lets core k run the next job of its process. Other cores may take those
// behind it.
func (w *World) runJob(k int32) {
	c := &w.cores[k]
	c.job = c.process.jobs.pop()
	w.makeReady(c.process)
	w.runOn(k)
}

func (w *World) runOn(k int32) {
	c := &w.cores[k]
	c.slice = math.Min(c.job.left, c.turn)
	c.since, c.busy = w.Now(), true
	c.run++
	w.after(durationOf(c.slice), event{endSlice, k, c.run})
}

// endSliceOf is the end of a job, or of a turn.
func (w *World) endSliceOf(k, run int32) {
	c := &w.cores[k]
	if !c.busy || c.run != run {
		return
	}
	p := c.process
	w.settleCore(c)
	if c.job.left >= 1 { // the turn is over
		if c.host.line.len() == 0 && p.jobs.len() == 0 {
			c.turn = slice
			w.runOn(k)
			return
		}
		p.jobs.push(c.job)
		w.quit(k)
		return
	}
	c.busy = false
	w.jobDone(p, c.job)
	c = &w.cores[k]
	if p.alive && p.pace.stops == 0 && c.process == p && c.turn >= 1 && p.jobs.len() > 0 {
		w.runJob(k)
		return
	}
	w.quit(k)
}

// settleCore books what a core has done since it last began.
func (w *World) settleCore(c *core) {
	did := math.Min(float64(w.Now().Sub(c.since)), c.slice)
	c.since = w.Now()
	c.slice -= did
	c.job.left -= did
	c.turn -= did
	c.process.used += did
	c.host.used += did
}

// quit ends the turn of core k's process.
func (w *World) quit(k int32) {
	c := &w.cores[k]
	p := c.process
	c.busy, c.process = false, nil
	c.run++
	c.host.idle = append(c.host.idle, k)
	w.makeReady(p)
	w.dispatch(c.host)
}

// preempt takes p from all processors. What it does goes on at its next turn.
func (w *World) preempt(p *process) {
	for k := range w.cores {
		if c := &w.cores[k]; c.busy && c.process == p {
			w.settleCore(c)
			p.jobs.push(c.job)
			w.quit(int32(k))
		}
	}
}

// jobDone goes on with what p has just done.
func (w *World) jobDone(p *process, j job) {
	switch j.kind {
	case jobChore:
		return
	case jobProbe:
		w.probed(p)
		return
	}
	c := w.calls[j.who]
	if c.gen != j.gen {
		return
	}
	switch j.kind {
	case jobTake:
		w.requestAtProcess(c)
	case jobSend:
		w.travel(c)
	case jobHear:
		w.replyAtCaller(c)
	case jobAnswer:
		c.state = notHere
		if !c.open {
			c.there = false
			w.release(c)
			return
		}
		w.engine.AlongLane(laneMessage, w.down(c.link), event{replyAtCaller, c.id, c.gen})
	case jobCompute:
		if c.state == working {
			w.passed(c)
		}
	}
}

// vacate discards what p, which was killed, would have done. Calls that it had not yet
// sent, and answers that it had not yet read, are gone; the rest was lost with p.
func (w *World) vacate(p *process) {
	if p.host == nil {
		return
	}
	for k := range w.cores {
		if c := &w.cores[k]; c.process == p {
			if c.busy {
				w.settleCore(c)
				p.jobs.push(c.job)
			}
			w.quit(int32(k))
		}
	}
	for p.jobs.len() > 0 {
		j := p.jobs.pop()
		if j.kind != jobSend && j.kind != jobHear {
			continue
		}
		if c := w.calls[j.who]; c.gen == j.gen {
			c.there = false
			w.release(c)
		}
	}
	p.lag = lag{}
}
