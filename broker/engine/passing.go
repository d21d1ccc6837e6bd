package engine

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
	t = &Topic{name: string(name)}
	t.gone.Store(true)
	return t, nil
}

// Wanted reports whether t has subscribers here now.
func (h *Hub) Wanted(t *Topic) bool {
	f := h.fanOf(t)
	return len(f.each) > 0 || len(f.groups) > 0
}

// Forwards reports whether there is a Forwarder, so that a topic may have subscribers that
// the hub does not know.
func (h *Hub) Forwards() bool { return h.cfg.Forward != nil }
