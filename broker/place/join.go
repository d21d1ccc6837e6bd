package place

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Place is where a publisher belongs.
type Place struct {
	Topic     string `json:"topic"`
	Publisher string `json:"publisher"`
	Node      string `json:"node"`
	Address   string `json:"address"`
}

// gather is how long publishers that ask for their places are collected.
const gather = 5 * time.Millisecond

// batch are publishers of a topic that ask for their places.
type batch struct {
	joins map[string]Join
	done  chan struct{}
	state *State
	wrong map[string]error // by publisher: its own mistakes, which are not those of the others
	has   map[string]Place // those that have their places already, whatever becomes of the others
	err   error
}

// Place returns the node of a publisher, and gives it one if it has none or says something else of itself than what is
// known (Join.Agrees). A Place without Node means that no node has room. Those who ask at the same time are answered from
// one reading of the state, which may be large.
func (p *Placer) Place(ctx context.Context, topic string, j Join) (Place, error) {
	if ctx.Err() != nil {
		return Place{}, ctx.Err()
	}
	b := p.join(ctx, topic, j)
	select {
	case <-b.done:
	case <-ctx.Done():
		return Place{}, ctx.Err()
	}
	if at, ok := b.has[j.Publisher]; ok && b.err != nil {
		return at, nil
	}
	if err := cmp.Or(b.err, b.wrong[j.Publisher]); err != nil {
		return Place{}, err
	}
	return b.state.where(topic, j.Publisher), nil
}

// where is the place of a publisher.
func (s *State) where(topic, publisher string) Place {
	at := Place{Topic: topic, Publisher: publisher}
	if t := s.Topics[topic]; t != nil {
		at.Node = t.Publishers[publisher].Node
		at.Address = s.Nodes[at.Node].Address
	}
	return at
}

// join puts a publisher into the batch of its topic, which is made and ended if there is none.
func (p *Placer) join(ctx context.Context, topic string, j Join) *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.joining[topic]
	if b == nil {
		b = &batch{joins: map[string]Join{}, done: make(chan struct{})}
		p.joining[topic] = b
		// The batch is of many; it does not end because the first of them gave up.
		go p.end(context.WithoutCancel(ctx), topic, b)
	}
	b.joins[j.Publisher] = j
	return b
}

// joinTime bounds how long a batch takes.
const joinTime = 10 * time.Second

// end gives the publishers of a batch their places. While others have the turn, more join it.
func (p *Placer) end(ctx context.Context, topic string, b *batch) {
	defer close(b.done)
	time.Sleep(gather)
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		b.err = ctx.Err()
	}
	p.mu.Lock()
	delete(p.joining, topic)
	p.mu.Unlock() // no publisher joins b any more
	if b.err != nil {
		return
	}
	if _, err := p.update(ctx, b.change(topic)); !errors.Is(err, errNothingNew) {
		b.err = err
	}
}

// errNothingNew is of a batch of publishers that all have their places, so that nothing is to be written.
var errNothingNew = errors.New("place: nothing changes")

// change returns what a batch makes of a state.
func (b *batch) change(topic string) func(*State) error {
	return func(s *State) error {
		b.state, b.wrong, b.has = s, map[string]error{}, map[string]Place{}
		var joins []Join
		for _, j := range b.joins {
			if t := s.Topics[topic]; t != nil {
				if known := t.Publishers[j.Publisher]; known.Node != "" && j.Agrees(known) {
					b.has[j.Publisher] = s.where(topic, j.Publisher)
					continue
				}
			}
			if err := s.checkJoins(topic, []Join{j}); err != nil {
				b.wrong[j.Publisher] = err
			} else {
				joins = append(joins, j)
			}
		}
		if len(joins) == 0 {
			return errNothingNew
		}
		return s.Join(topic, joins...)
	}
}
