package share

import (
	"context"
	"errors"
	"sync"

	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/place"
)

// A client that publishes to a topic of the state is asked for, once, and sent where it belongs when the state has its place. It is asked for
// again while the state has none: because nobody could be asked (no majority, too many at once), or the place was taken away before this node
// saw it, in the next step; because the topic was removed and is there again, or the place was taken away, when the state changes.

const (
	// maxAsks is how many publishers wait to be placed. Further ones are asked for in later steps.
	maxAsks = 4096
	// maxClientTopics bounds how many topics of one client are kept in mind.
	maxClientTopics = 100
)

// ask is a publisher without a place.
type ask struct {
	topic string
	join  place.Join
}

// publishing is what a client of this node publishes to.
type publishing struct {
	says mqtt.Says
	// asked: it is asked for. answered: it got a place, which the state has or had. refused: it gets none, as long as the names of
	// topics do not change.
	asked, answered, refused bool
}

// Publishes tells that a client of this node publishes to a topic, and what it
// says of itself. The client is placed if the topic is one of the state, and moved
// if its place is elsewhere. It does not block.
func (n *Node) Publishes(client, topic string, says mqtt.Says) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.away, client)
	if n.state.Topics[topic] == nil {
		return
	}
	topics := n.clients[client]
	if topics == nil {
		topics = map[string]*publishing{}
		n.clients[client] = topics
	}
	if topics[topic] == nil && len(topics) < maxClientTopics {
		topics[topic] = &publishing{says: says}
		n.place(client)
	}
}

// placeAll places clients that have no place, and moves those that belong elsewhere. The lock is held, as below.
func (n *Node) placeAll() {
	for client := range n.clients {
		n.place(client)
	}
}

// place asks for the places that a client has not, and sends it elsewhere if none of its topics is here.
func (n *Node) place(client string) {
	to, here := "", false
	for topic, p := range n.clients[client] {
		t := n.state.Topics[topic]
		if t == nil {
			continue
		}
		at, known := t.Publishers[client]
		if known && join(client, p.says).Agrees(at) {
			p.asked, p.answered = false, false
		} else {
			n.want(client, topic, p)
		}
		switch at.Node {
		case n.cfg.Node:
			here = true
		case "":
		default:
			to = n.state.Nodes[at.Node].Address
		}
	}
	if to != "" && !here && n.cfg.Move(client, to) {
		n.left(client)
	}
}

// join is a client as a publisher that wants a place.
func join(client string, says mqtt.Says) place.Join {
	return place.Join{Publisher: client, Group: says.Group, Objective: says.Objective.Seconds(), Client: true}
}

// want has a client placed, unless that is under way.
func (n *Node) want(client, topic string, p *publishing) {
	if p.asked || p.refused {
		return
	}
	select {
	case n.asking <- ask{topic, join(client, p.says)}:
		p.asked = true
	default:
		n.again = true
	}
}

// allow has those asked for again that were refused.
func (n *Node) allow() {
	for _, topics := range n.clients {
		for _, p := range topics {
			p.refused = false
		}
	}
}

// askAgain asks for those that could not be asked for, and those that got a place which the state does not have.
func (n *Node) askAgain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.again {
		return
	}
	n.again = false
	for _, topics := range n.clients {
		for _, p := range topics {
			p.asked = p.asked && !p.answered
			p.answered = false
		}
	}
	n.placeAll()
}

// ask places publishers.
func (n *Node) ask(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	room := make(chan struct{}, 64) // at once: Placer makes one change of many
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-n.asking:
			room <- struct{}{}
			asking.Go(func() {
				defer func() { <-room }()
				_, err := n.placer.Place(ctx, a.topic, a.join)
				if err != nil {
					n.log.Debug("a publisher is not placed", "topic", a.topic, "error", err)
				} // else the state that comes of it moves the client
				n.answered(a, err)
			})
		}
	}
}

// answered notes that a publisher was placed, or could not be. What is wrong with it stays wrong.
func (n *Node) answered(a ask, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.clients[a.join.Publisher][a.topic]
	if p == nil {
		return
	}
	var mistake *place.Mistake
	p.refused = errors.As(err, &mistake)
	p.answered, p.asked = err == nil, err == nil
	n.again = n.again || !p.refused
}
