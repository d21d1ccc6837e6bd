package engine

import (
	"errors"
	"strings"
)

// Inbox begins the names of topics that clients of NATS make for answers, each of which is used once.
const Inbox = "_INBOX/"

// Passing is TopicBy for a name that is used once, as the subjects of replies are:
// unless the topic exists, or a limit holds it, the hub keeps nothing of it.
func (h *Hub) Passing(by *Maker, name []byte) (*Topic, error) {
	h.mu.RLock()
	t, limited := h.topics[string(name)], false
	for _, r := range h.rules {
		limited = limited || Matches(r.Filter, string(name))
	}
	h.mu.RUnlock()
	switch {
	case t != nil:
		return t, nil
	case limited:
		return h.TopicBy(by, name)
	}
	if err := CheckTopic(string(name)); err != nil {
		return nil, err
	}
	return loose(name), nil
}

// loose returns a topic that the hub does not keep.
func loose(name []byte) *Topic {
	t := &Topic{name: string(name)}
	t.gone.Store(true)
	return t
}

// Delivered is Topic for a message that another node has released, or that the log has: where the hub has as many topics as
// it may, it keeps nothing of this one, so that the message is not lost; nor of one that is an Inbox, which would take the place of others.
func (h *Hub) Delivered(name []byte) (*Topic, error) {
	topic := h.Topic
	if strings.HasPrefix(string(name), Inbox) {
		topic = func(name []byte) (*Topic, error) { return h.Passing(nil, name) }
	}
	t, err := topic(name)
	if errors.Is(err, ErrTopics) {
		return loose(name), nil
	}
	return t, err
}

// Wanted reports whether t has subscribers here now.
func (h *Hub) Wanted(t *Topic) bool {
	f := h.fanOf(t)
	return len(f.each) > 0 || len(f.groups) > 0
}

// Grouped reports whether a shared subscription that has members here now covers t.
func (h *Hub) Grouped(t *Topic) bool { return len(h.fanOf(t).groups) > 0 }

// Forwards reports whether there is a Forwarder, so that a topic may have subscribers that
// the hub does not know.
func (h *Hub) Forwards() bool { return h.cfg.Forward != nil }
