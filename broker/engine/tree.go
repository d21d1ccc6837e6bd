package engine

import "strings"

// tree holds subscriptions by the levels of their filters. It is guarded by the
// hub's lock.
type tree struct {
	root node
	n    int // subscriptions
}

type node struct {
	children map[string]*node
	subs     []*Subscription
}

// add puts s where its filter leads.
func (t *tree) add(s *Subscription) {
	at := &t.root
	for rest, more := s.filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		child := at.children[level]
		if child == nil {
			if at.children == nil {
				at.children = map[string]*node{}
			}
			child = &node{}
			at.children[level] = child
		}
		at = child
	}
	at.subs = append(at.subs, s)
	t.n++
}

// remove takes s out, and the levels that held nothing else.
func (t *tree) remove(s *Subscription) { t.root.remove(s, s.filter, t) }

func (at *node) remove(s *Subscription, rest string, t *tree) {
	level, rest, more := strings.Cut(rest, "/")
	child := at.children[level]
	if child == nil {
		return
	}
	if more {
		child.remove(s, rest, t)
	} else {
		for i, have := range child.subs {
			if have == s {
				child.subs = append(child.subs[:i], child.subs[i+1:]...)
				t.n--
				break
			}
		}
	}
	if len(child.subs) == 0 && len(child.children) == 0 {
		delete(at.children, level)
	}
}

// match calls found for every subscription whose filter covers name, in no
// particular order.
func (t *tree) match(name string, found func(*Subscription)) {
	t.root.match(name, !strings.HasPrefix(name, "$"), found)
}

func (at *node) match(rest string, wild bool, found func(*Subscription)) {
	if all := at.children["#"]; all != nil && wild {
		each(all.subs, found)
	}
	level, rest, more := strings.Cut(rest, "/")
	at.step(at.children[level], rest, more, found)
	if wild {
		at.step(at.children["+"], rest, more, found)
	}
}

func (at *node) step(child *node, rest string, more bool, found func(*Subscription)) {
	switch {
	case child == nil:
	case more:
		child.match(rest, true, found)
	default:
		each(child.subs, found)
		if all := child.children["#"]; all != nil {
			each(all.subs, found)
		}
	}
}

func each(subs []*Subscription, found func(*Subscription)) {
	for _, s := range subs {
		found(s)
	}
}
