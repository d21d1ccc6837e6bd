package share

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// A publisher keeps its place while it is away, so that it comes back to where its part of the bucket is. One that stays
// away gives the place up: clients that take another name each time they connect would fill the state otherwise, and count
// as traffic that never comes.

const (
	// forgetAfter is how long a client may be away: longer than a restart of its machine takes.
	forgetAfter = 10 * time.Minute
	// forgetEvery is how often it is looked for clients that are away for so long.
	forgetEvery = 10 * time.Second
	// maxAway bounds how many are kept in mind. Further ones keep their places for good.
	maxAway = 100_000
	// forgetAtOnce bounds how many are asked for in a turn, and forgetTogether how many at a time: each takes a round trip to the
	// other nodes, and 3 s where one of them does not answer.
	forgetAtOnce, forgetTogether = 1000, 100
)

// away is a client that has left this node, or has not come yet.
type away struct {
	since  mono.Time
	topics []string
}

// left notes that a client is not at this node any more. The lock is held.
func (n *Node) left(client string) {
	topics := n.clients[client]
	delete(n.clients, client)
	if len(topics) > 0 && len(n.away) < maxAway {
		n.away[client] = away{live.Now(), slices.Sorted(maps.Keys(topics))}
	}
}

// missing notes clients whose place is here and that are not: they have not come yet, or the node that knew them as away has
// ended. The lock is held.
func (n *Node) missing(now mono.Time) {
	if n.cfg.Connected == nil {
		return
	}
	for topic, t := range n.state.Topics {
		for client, p := range t.Publishers {
			if p.Node != n.cfg.Node || !p.Client || n.clients[client] != nil {
				continue
			}
			a, known := n.away[client]
			switch {
			case !known && len(n.away) >= maxAway:
				return
			case !known:
				n.away[client] = away{now, []string{topic}}
			case !slices.Contains(a.topics, topic) && len(a.topics) < maxClientTopics:
				a.topics = append(slices.Clip(a.topics), topic)
				n.away[client] = a
			}
		}
	}
}

// placed notes that a client has a place before it publishes, which it may never do.
func (n *Node) placed(client, topic string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.clients[client] != nil || n.away[client].topics == nil && len(n.away) >= maxAway {
		return
	}
	topics := n.away[client].topics
	if !slices.Contains(topics, topic) && len(topics) < maxClientTopics {
		topics = append(slices.Clip(topics), topic)
	}
	n.away[client] = away{live.Now(), topics}
}

// here reports whether a client publishes at this node: it may have come back while the others were asked.
func (n *Node) here(client string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clients[client] != nil
}

// forget takes the places of clients that stay away, until ctx ends.
func (n *Node) forget(ctx context.Context) {
	again := time.NewTicker(forgetEvery)
	defer again.Stop()
	for n.cfg.Connected != nil {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			n.forgetAway(ctx, live.Now())
		}
	}
}

// forgetAway takes the places of clients that have been away for forgetAfter at an instant, and are connected to no node.
func (n *Node) forgetAway(ctx context.Context, now mono.Time) {
	n.mu.Lock()
	long := map[string]away{}
	for client, a := range n.away {
		if len(long) < forgetAtOnce && now.Sub(a.since) >= forgetAfter {
			long[client] = a
			delete(n.away, client)
		}
	}
	n.mu.Unlock()
	gone := n.gone(ctx, long)
	if len(gone) == 0 {
		return
	}
	try, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	_, err := n.placer.Update(try, func(s *place.State) error {
		for _, topic := range slices.Sorted(maps.Keys(gone)) {
			if s.Topics[topic] != nil {
				still := slices.DeleteFunc(slices.Clone(gone[topic]), n.here) // asking may have taken long
				_ = s.Leave(topic, still...)                                  // it knows the topic
			}
		}
		return nil
	})
	if err == nil {
		return
	}
	n.log.Debug("publishers that are away keep their places for now", "error", err)
	n.mu.Lock()
	defer n.mu.Unlock()
	for client, a := range long { // the next time
		if n.clients[client] == nil {
			n.away[client] = a
		}
	}
}

// gone returns those clients, by topic, that are connected to no node.
func (n *Node) gone(ctx context.Context, long map[string]away) map[string][]string {
	var asking sync.WaitGroup
	var mu sync.Mutex
	gone := map[string][]string{}
	room := make(chan struct{}, forgetTogether)
	for client, a := range long {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			if n.cfg.Connected(ctx, client) || n.here(client) {
				return // the node where it is sees to it
			}
			mu.Lock()
			defer mu.Unlock()
			for _, topic := range a.topics {
				gone[topic] = append(gone[topic], client)
			}
		})
	}
	asking.Wait()
	for _, clients := range gone {
		slices.Sort(clients)
	}
	return gone
}
