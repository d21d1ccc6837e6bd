package engine

import "sync/atomic"

// Maker counts the topics that one client has made and that the hub still knows.
type Maker struct {
	most int64
	made atomic.Int64
}

// NewMaker returns the count of a client that may make that many topics.
func NewMaker(most int) *Maker { return &Maker{most: int64(most)} }

// full reports whether a client has made as many topics as it may; nil may make any
// number.
func (m *Maker) full() bool { return m != nil && m.made.Load() >= m.most }

// add counts a topic that was made or forgotten.
func (m *Maker) add(n int64) {
	if m != nil {
		m.made.Add(n)
	}
}
