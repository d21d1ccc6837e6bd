package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/broker/share"
)

// takePart has the node share topics' buckets with others and send publishers where they
// belong, until leave is called.
func (b *Broker) takePart(ctx context.Context) (leave func(), err error) {
	cluster := b.cfg.Cluster.WithDefaults()
	start, cancel := context.WithTimeout(ctx, placeTime)
	defer cancel()
	placer, err := openPlacer(start, b.plane.Conn(), cluster.Replicas)
	if err != nil {
		return nil, err
	}
	if at := b.cfg.Place; at.Address != "" {
		if err := enter(start, placer, cluster.Node, at); err != nil {
			return nil, fmt.Errorf("broker: entering the node: %w", err)
		}
	}
	fence := time.Duration(0)
	if cluster.URL != "" || len(cluster.Routes) == 0 { // all nodes lose one another while a NATS that runs elsewhere is started again, and one alone has nobody to hear it
		fence = farFence
	}
	node := share.NewNode(share.Config{Node: cluster.Node, Window: b.window, Fence: fence, Replicas: cluster.Replicas, Holders: b.plane.SetHolders, Down: b.plane.SetDown, Move: b.mqtt.Move, Connected: b.plane.Connected},
		b.hub, b.plane.Conn(), placer, b.log)
	var server *http.Server
	var running sync.WaitGroup
	if b.cfg.Place.Listen != "" {
		l, err := net.Listen("tcp", b.cfg.Place.Listen)
		if err != nil {
			return nil, fmt.Errorf("broker: place.listen: %w", err)
		}
		server = place.Server(placer, slog.NewLogLogger(b.log.Handler(), slog.LevelDebug))
		running.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				b.log.Error("placement requests are no longer answered", "error", err)
			}
		})
	}
	b.mqtt.Place(node)
	b.node = node
	until, stop := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() {
		for until.Err() == nil {
			if err := node.Run(until); err != nil && until.Err() == nil {
				b.log.Warn("this node does not follow the placement", "error", err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	return func() {
		stop()
		if server != nil {
			server.Close()
		}
		running.Wait()
	}, nil
}

// handOver has other nodes hold what this one holds.
func (b *Broker) handOver() {
	if b.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	b.node.Leave(ctx)
}

const (
	// leaveTime bounds how long a node that ends waits until others have taken over: somewhat longer than a change of the state takes.
	leaveTime = 3 * time.Second
	// farFence is share.Config.Fence without a cluster of nodes: as long as grants last by default.
	farFence = 20 * time.Second
	// placeTime bounds how long a node waits for the state of places, whose copies find a
	// leader first.
	placeTime = 2 * time.Minute
	// placeAttempt bounds one attempt: a state that another node is just making answers
	// nothing.
	placeAttempt = 3 * time.Second
)

// openPlacer opens the state of places, as often as it takes.
func openPlacer(ctx context.Context, nc *nats.Conn, replicas int) (p *place.Placer, err error) {
	err = insist(ctx, func(ctx context.Context) (err error) {
		p, err = place.Open(ctx, nc, replicas)
		return err
	})
	return p, err
}

// insist tries until it is done, ctx ends, or what is asked for is wrong.
func insist(ctx context.Context, do func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, placeAttempt)
		err := do(try)
		cancel()
		var mistake *place.Mistake
		if err == nil || ctx.Err() != nil || errors.As(err, &mistake) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// enter puts the node into the state, unless it is there.
func enter(ctx context.Context, placer *place.Placer, name string, at Place) error {
	return insist(ctx, func(ctx context.Context) error {
		s, _, err := placer.Load(ctx)
		if err != nil {
			return err
		}
		if n, ok := s.Nodes[name]; ok && n.Address == at.Address && n.Capacity == at.Capacity {
			return nil
		}
		_, err = placer.Update(ctx, func(s *place.State) error {
			return s.SetNode(name, place.Node{Address: at.Address, Capacity: at.Capacity, Draining: s.Nodes[name].Draining})
		})
		return err
	})
}
