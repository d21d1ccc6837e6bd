package mesh

import "time"

// The time that a request takes alone can be added up without events if its calls never wait
// for each other. The callers' turns and calls in flight decide which process a call goes to; walk
// changes them as the call would, because the next request, added up or played, goes on from there.

// loners returns, per workflow, whether walk may add it up. A process that makes calls serves one
// call of the request at a time, so its turns have one order; and all calls of a service that are
// made at once fit into one process of it.
func (w *World) loners() []bool {
	calls := make([]bool, len(w.services))
	for _, s := range w.program.stages {
		for _, st := range w.program.steps[s.first:s.last] {
			calls[s.service] = calls[s.service] || st.kind == stepCalls
		}
	}
	out := make([]bool, len(w.program.roots))
	for f := range out {
		most, ok := w.program.crowd(w.program.roots[f].stage)
		for service, n := range most {
			for _, r := range w.cfg.Services[service].Resources {
				ok = ok && n <= r.Capacity
			}
			ok = ok && (n <= 1 || !calls[service])
		}
		out[f] = ok
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

// walk returns how long a call takes alone, both ways included, and leaves the callers below as
// the call would.
func (w *World) walk(r *root, l *link, stage int32, chance draws) time.Duration {
	st := w.program.stages[stage]
	took, born := 2*w.cfg.Network.Delay, uint64(0)
	for pc := st.first; pc < st.last; pc++ {
		s := &w.program.steps[pc]
		if s.kind == stepWork {
			took += durationOf(chance.of(drawTime, uint64(pc)).time(s.mean, s.shape) / l.to.speed)
			continue
		}
		flight := len(w.flight)
		var longest time.Duration
		for at := s.first; at < s.last; at++ {
			k := &w.program.calls[at]
			for range k.times(chance, at) {
				born++
				if k.skips(chance, born) {
					continue
				}
				down := chance.of(drawChild, born)
				to := w.choose(&l.to.node, k, r, down)
				each := w.walk(r, to, k.stage, down)
				if !s.parallel {
					took += each
					continue
				}
				longest = max(longest, each)
				to.outstanding++ // as the others see it that are made at once
				w.flight = append(w.flight, to)
			}
		}
		for _, to := range w.flight[flight:] {
			to.outstanding--
		}
		w.flight = w.flight[:flight]
		took += longest
	}
	return took
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
