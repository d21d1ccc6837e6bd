package engine

import "strings"

// names holds topics by the levels of their names, to find those that a filter matches without a look at all others.
type names struct {
	root name
	n    int // topics
}

type name struct {
	topic *Topic // nil: none ends here
	below map[string]*name
}

// put adds a topic that is not there.
func (s *names) put(t *Topic) {
	at := &s.root
	for rest, more := t.name, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		next := at.below[level]
		if next == nil {
			if at.below == nil {
				at.below = map[string]*name{}
			}
			next = &name{}
			at.below[level] = next
		}
		at = next
	}
	at.topic = t
	s.n++
}

// drop takes out a topic that is there, and the levels that held nothing else.
func (s *names) drop(t *Topic) {
	s.root.drop(t.name)
	s.n--
}

func (at *name) drop(rest string) {
	level, rest, more := strings.Cut(rest, "/")
	next := at.below[level]
	if more {
		next.drop(rest)
	} else {
		next.topic = nil
	}
	if next.topic == nil && len(next.below) == 0 {
		delete(at.below, level)
	}
}

// match calls found for every topic whose name filter covers, as Matches says, in no particular order. found may drop that topic.
func (s *names) match(filter string, found func(*Topic)) { s.root.match(filter, true, found) }

func (at *name) match(filter string, first bool, found func(*Topic)) {
	level, rest, more := strings.Cut(filter, "/")
	step := func(next *name) {
		switch {
		case more:
			next.match(rest, false, found)
		case next.topic != nil:
			found(next.topic)
		}
	}
	switch level {
	case "#":
		at.each(first, found)
	case "+":
		for level, next := range at.below {
			if !first || !strings.HasPrefix(level, "$") {
				step(next)
			}
		}
	default:
		if next := at.below[level]; next != nil {
			step(next)
		}
	}
}

// each calls found for the topic here and all below.
func (at *name) each(first bool, found func(*Topic)) {
	if at.topic != nil {
		found(at.topic)
	}
	for level, next := range at.below {
		if !first || !strings.HasPrefix(level, "$") {
			next.each(false, found)
		}
	}
}
