package mesh

import "time"

// The time that a request takes alone can be added up without events if its calls never wait
// for each other. The callers' turns and calls in flight decide which process a call goes to; walk
// changes them as the call would, because the next request, added up or played, goes on from there.

// manner is how the time of a workflow's requests alone is found.
type manner uint8

const (
	inWorld manner = iota // by a World without clients, if they do something else than work and call
	inSolo                // by solo
	addedUp               // by walk
)

// mannersOf returns how it is found, per workflow. It may be added up if a process that makes calls serves one
// call of the request at a time, so its turns have one order, and if all calls of a service that are
// made at once fit into one process of it.
func (w *World) mannersOf() []manner {
	calls := make([]bool, len(w.services))
	for _, s := range w.program.stages {
		for _, st := range w.program.steps[s.first:s.last] {
			calls[s.service] = calls[s.service] || st.kind == stepCalls
		}
	}
	out := make([]manner, len(w.program.roots))
	for f := range out {
		most, ok := w.program.crowd(w.program.roots[f].stage)
		if !ok {
			continue
		}
		out[f] = addedUp
		for service, n := range most {
			for _, r := range w.cfg.Services[service].Resources {
				if n > r.Capacity {
					out[f] = inSolo
				}
			}
			if n > 1 && calls[service] {
				out[f] = inSolo
			}
		}
	}
	return out
}

// crowd returns, per service, the most calls of it that one call of a stage has at once, itself
// included. It reports false if a stage does something else than work and calls.
func (p *program) crowd(id int32) (most map[int32]int, ok bool) {
	st, most := p.stages[id], map[int32]int{}
	for _, s := range p.steps[st.first:st.last] {
		if s.kind != stepWork && s.kind != stepCalls {
			return nil, false
		}
		sum := map[int32]int{}
		for i := s.first; i < s.last; i++ {
			below, ok := p.crowd(p.calls[i].stage)
			if !ok {
				return nil, false
			}
			for service, n := range below {
				if s.parallel {
					sum[service] += n * int(p.calls[i].most)
				} else {
					sum[service] = max(sum[service], n)
				}
			}
		}
		for service, n := range sum {
			most[service] = max(most[service], n)
		}
	}
	most[st.service]++
	return most, true
}

// walker adds up requests. What it needs of the callers lies close together: in a large graph, each process and
// each link that it went by was far away in memory.
type walker struct {
	program  *program
	services []service
	hop      time.Duration
	// Per caller, the processes and then the client: its first slot, of which each has a turn (node.turn), and the
	// first of the callee's processes in out.
	slots  []int32
	turns  []uint32
	firsts []int32
	out    []int32 // calls in flight, where the fewest decide
	flight []int32 // those in out of the steps that are being added up
	solo   solo
}

// newWalker returns the walker of an idle world with one client, none of whose processes is ever down or slow. They
// have the callers' turns in common.
func (w *World) newWalker() *walker {
	k := &walker{program: &w.program, services: w.services, hop: w.cfg.Network.Delay, solo: w.newSolo()}
	down := make([][]int32, len(w.services)) // the services that each calls, by slot
	for _, st := range w.program.stages {
		for _, s := range w.program.steps[st.first:st.last] {
			for _, c := range w.program.calls[s.first:s.last] {
				for int(c.slot) >= len(down[st.service]) {
					down[st.service] = append(down[st.service], 0)
				}
				down[st.service][c.slot] = c.service
			}
		}
	}
	for _, p := range w.processes {
		k.add(&p.node, down[p.service])
	}
	k.add(&w.clients[0].node, w.mixes[0].slots)
	turns := k.turns
	for _, p := range w.processes {
		turns = p.shareTurns(turns)
	}
	w.clients[0].shareTurns(turns)
	return k
}

// add adds a caller, and the services that it calls.
func (k *walker) add(n *node, services []int32) {
	k.slots = append(k.slots, int32(len(k.turns)))
	k.turns = append(k.turns, n.turn...)
	for _, s := range services {
		k.firsts = append(k.firsts, int32(len(k.out)))
		k.out = append(k.out, make([]int32, len(k.services[s].processes))...)
	}
}

// shareTurns has n keep its turns at the beginning of a list that has the same, and returns the rest of it.
func (n *node) shareTurns(turns []uint32) []uint32 {
	n.turn = turns[:len(n.turn):len(n.turn)]
	return turns[len(n.turn):]
}

// alone returns how long a request of the client takes, both ways included, whose call to the entry draws chance.
func (k *walker) alone(entry *callee, tenant uint32, chance draws) time.Duration {
	to, _ := k.choose(k.client(), entry, tenant, chance.of(drawRetry, 0))
	return k.walk(to, entry.stage, tenant, chance)
}

// client is the number of the client, as a caller.
func (k *walker) client() int32 { return int32(len(k.slots) - 1) }

// choose is World.choose: it returns the process, and its place in out if calls in flight count there, else -1.
func (k *walker) choose(caller int32, c *callee, tenant uint32, chance draws) (process, at int32) {
	s := &k.services[c.service]
	count, slot := len(s.processes), k.slots[caller]+c.slot
	i := 0
	at = -1
	if count > 1 {
		switch s.pick {
		case RoundRobin:
			i = next(&k.turns[slot], count)
		case AtRandom:
			i = chance.of(drawPick, 0).below(count)
		case ByTenant:
			i = s.rendezvous(tenant)
		case LeastOutstanding:
			first, out := next(&k.turns[slot], count), k.out[k.firsts[slot]:]
			i = first
			for off := range count {
				if j := (first + off) % count; out[j] < out[i] {
					i = j
				}
			}
			at = k.firsts[slot] + int32(i)
		}
	}
	return s.first + int32(i), at
}

// walk returns how long a call takes alone, both ways included, and leaves the callers below as
// the call would.
func (k *walker) walk(process, stage int32, tenant uint32, chance draws) time.Duration {
	st := k.program.stages[stage]
	took, born := 2*k.hop, uint64(0)
	for pc := st.first; pc < st.last; pc++ {
		s := &k.program.steps[pc]
		if s.kind == stepWork {
			took += s.took(chance, pc)
			continue
		}
		flight := len(k.flight)
		var longest time.Duration
		for at := s.first; at < s.last; at++ {
			c := &k.program.calls[at]
			for range c.times(chance, at) {
				born++
				if c.skips(chance, born) {
					continue
				}
				down := chance.of(drawChild, born)
				to, out := k.choose(process, c, tenant, down)
				each := k.walk(to, c.stage, tenant, down)
				if !s.parallel {
					took += each
					continue
				}
				longest = max(longest, each)
				if out >= 0 {
					k.out[out]++ // as the others see it that are made at once
					k.flight = append(k.flight, out)
				}
			}
		}
		for _, out := range k.flight[flight:] {
			k.out[out]--
		}
		k.flight = k.flight[:flight]
		took += longest
	}
	return took
}

// took returns how long the work of a step takes, of number pc in the program, at the usual speed.
func (s *step) took(chance draws, pc int32) time.Duration {
	return durationOf(chance.of(drawTime, uint64(pc)).time(s.mean, s.shape))
}

// times returns how many times a call is made, of number at in the program.
func (k *callee) times(chance draws, at int32) int32 {
	if k.most == k.least {
		return k.least
	}
	return k.least + int32(chance.of(drawTimes, uint64(at)).below(int(k.most-k.least+1)))
}

// skips reports whether the caller's call of that number, from 1, is not made.
func (k *callee) skips(chance draws, born uint64) bool {
	return k.skip > 0 && chance.of(drawSkip, born).unit() < k.skip
}
