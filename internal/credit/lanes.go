package credit

// maxLanes is how many workflows a wallet tells apart. Those that wait beyond it share a
// lane.
const maxLanes = 64

// lanes is the order in which waiting requests of several workflows get credits: each
// workflow as many as the server says is its part, by start-time fair queueing (Goyal et
// al. 1996). A server serves workflows by their weights, but what it does not see it cannot
// order: in order of arrival, the wallet of a client that asks for several would fill its
// window with whatever there is most of.
type lanes struct {
	byName map[string]*lane
	busy   []*lane // in which something waits
	now    float64 // the start of the one that was served last
}

// lane is a workflow. Its requests wait in order of arrival.
type lane struct {
	name       string
	part       float64 // 0: no server said
	start      float64 // of the next one: when it would be served were there always a credit
	head, tail *Waiter
}

// of returns the lane of a workflow.
func (s *lanes) of(name string) *lane {
	if l := s.byName[name]; l != nil {
		return l
	}
	if s.byName == nil {
		s.byName = map[string]*lane{}
	}
	if len(s.byName) >= maxLanes {
		s.tidy()
	}
	if len(s.byName) >= maxLanes {
		name = ""
		if l := s.byName[name]; l != nil {
			return l
		}
	}
	l := &lane{name: name}
	s.byName[name] = l
	return l
}

// tidy forgets the lanes in which nothing waits.
func (s *lanes) tidy() {
	for name, l := range s.byName { //lint:ordered each by itself
		if l.head == nil && name != "" {
			delete(s.byName, name)
		}
	}
}

// push lets w wait in its lane.
func (s *lanes) push(w *Waiter) {
	l := s.of(w.Workflow)
	w.lane, w.laneNext, w.lanePrev = l, nil, l.tail
	if l.tail == nil {
		l.head = w
		s.busy = append(s.busy, l)
	} else {
		l.tail.laneNext = w
	}
	l.tail = w
}

// remove takes w out of its lane.
func (s *lanes) remove(w *Waiter) {
	l := w.lane
	if w.lanePrev == nil {
		l.head = w.laneNext
	} else {
		w.lanePrev.laneNext = w.laneNext
	}
	if w.laneNext == nil {
		l.tail = w.lanePrev
	} else {
		w.laneNext.lanePrev = w.lanePrev
	}
	w.lane, w.laneNext, w.lanePrev = nil, nil, nil
	if l.head == nil {
		for i, have := range s.busy {
			if have == l {
				s.busy = append(s.busy[:i], s.busy[i+1:]...)
				return
			}
		}
	}
}

// first returns the next request, nil if none waits: of lanes that start alike, of the one
// in which something waits for longer.
func (s *lanes) first() *Waiter {
	var best *lane
	for _, l := range s.busy {
		if best == nil || l.start < best.start {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	return best.head
}

// served charges w's workflow with a credit.
func (s *lanes) served(w *Waiter) {
	l := w.lane
	if l == nil {
		l = s.of(w.Workflow) // it did not wait
	}
	s.now = max(s.now, l.start)
	part := l.part
	if part <= 0 {
		part = 1
	}
	l.start = max(l.start, s.now) + 1/part
}

// hear takes what a server says of the part of w's workflow.
func (s *lanes) hear(w *Waiter, part float64) { s.of(w.Workflow).part = part }
