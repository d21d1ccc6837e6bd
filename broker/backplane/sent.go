package backplane

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// How often a message of a Group was sent to members is not how often it was drawn: it may be given back unsent, or be sent several
// times by one node. The node that gives it back says so:
//
//	node 1   drawn twice, sent four times ─▶ spillgate.sent.CONSUMER: 2 more at position 17 ─▶ node 2   drawn for the third time: sent 4 times before
//	   └──── and remembers it itself
//
// What a node that died has not said is taken from how often the message was drawn. So it is where a node was not there to hear it, or has
// forgotten it.

// maxSends is of how many messages a node remembers that. The earliest are forgotten.
const maxSends = maxDrawn

// drawnAt is a message that a consumer of the log has.
type drawnAt struct {
	consumer string
	position uint64
}

// sends is how much more often messages were sent than drawn.
type sends struct {
	mu    sync.Mutex
	more  map[drawnAt]int64
	order []drawnAt // a ring once it is full
	next  int
}

// set remembers it of a message. It reports false if that was known.
func (s *sends) set(at drawnAt, more int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.more[at]
	switch {
	case before == more:
		return false
	case known:
	case len(s.order) < maxSends:
		if s.more == nil {
			s.more = map[drawnAt]int64{}
		}
		s.order = append(s.order, at)
	default:
		delete(s.more, s.order[s.next])
		s.order[s.next] = at
		s.next = (s.next + 1) % maxSends
	}
	s.more[at] = more
	return true
}

// of returns it, 0 if it is not known.
func (s *sends) of(at drawnAt) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more[at]
}

// tellSent remembers it of a message, and tells the other nodes, before the message goes back.
func (p *Plane) tellSent(at drawnAt, more int64) {
	if p.groups.sends.set(at, more) {
		_ = p.jc.Publish(sentSubjects+at.consumer, binary.AppendVarint(binary.AppendUvarint(nil, at.position), more)) // or how often it was drawn counts
	}
}

// hearSent remembers what other nodes tell.
func (p *Plane) hearSent() error {
	if _, err := p.nc.Subscribe(sentSubjects+"*", func(m *nats.Msg) {
		position, n := binary.Uvarint(m.Data)
		more, k := binary.Varint(m.Data[max(n, 0):])
		if n <= 0 || k <= 0 {
			p.malformed(fmt.Errorf("backplane: %d bytes that tell how often a message was sent", len(m.Data)))
			return
		}
		p.groups.sends.set(drawnAt{strings.TrimPrefix(m.Subject, sentSubjects), position}, more)
	}); err != nil {
		return fmt.Errorf("backplane: %w", err)
	}
	return nil
}
