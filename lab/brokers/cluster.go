package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/backplane"
	brokerplace "github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/harness/freeport"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/telemetry"
)

// node is one broker of a cluster, which can be killed and started again.
type node struct {
	cfg   broker.Config
	spec  proc.Spec
	child *proc.Child
}

// cluster is brokers as processes, joined by routes on loopback.
type cluster struct {
	nodes  []*node
	dir    string
	placer *brokerplace.Placer
	hangUp func()
}

// plan changes how a cluster is started.
type plan struct {
	nodes    int
	capacity float64              // of a node, in messages/s
	cpus     []int                // of all nodes together; nil: any
	change   func(*cluster) error // of the nodes' configurations, before any of them runs
}

const (
	// gatherTime bounds how long a cluster may take until all of its nodes serve.
	gatherTime = 90 * time.Second
	// askTime bounds one look at a node.
	askTime = 500 * time.Millisecond
)

// startCluster starts nodes and waits until all of them serve.
func startCluster(ctx context.Context, p plan) (*cluster, error) {
	c := &cluster{hangUp: func() {}}
	if err := c.open(ctx, p); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *cluster) open(ctx context.Context, p plan) (err error) {
	if c.dir, err = os.MkdirTemp("", "spillgate-nodes-"); err != nil {
		return err
	}
	free, err := freeAddresses(4 * p.nodes)
	if err != nil {
		return err
	}
	clients, admin, routes, nats := free[:p.nodes], free[p.nodes:2*p.nodes], free[2*p.nodes:3*p.nodes], free[3*p.nodes:]
	for i := range p.nodes {
		name := fmt.Sprint("n", i+1)
		c.nodes = append(c.nodes, &node{cfg: broker.Config{Listen: []string{clients[i]}, Admin: admin[i],
			Cluster: backplane.Config{Node: name, Data: filepath.Join(c.dir, name), Listen: nats[i], Cluster: routes[i], Routes: routes},
			Place:   broker.Place{Address: clients[i], Capacity: p.capacity}}, spec: proc.Spec{Name: name, CPUs: p.cpus, RealTime: true, Nice: -20}})
	}
	if p.change != nil {
		if err := p.change(c); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	if err := c.await(ctx, "all nodes serve", gatherTime, c.serve); err != nil {
		return err
	}
	c.placer, c.hangUp, err = brokerplace.Dial(ctx, "nats://"+nats[0])
	return err
}

func (n *node) start(ctx context.Context) (err error) {
	n.child, err = brokerRole.Start(ctx, n.cfg, n.spec)
	return err
}

// kill is kill -9: the node has no time to hand anything over.
func (n *node) kill() {
	_ = syscall.Kill(n.child.Pid(), syscall.SIGKILL) // or it is gone already
	<-n.child.Exited()
}

// status asks the node how it is; an error where it does not answer within askTime.
func (n *node) status(ctx context.Context) (s broker.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.cfg.Admin+telemetry.PathStatus, nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, errors.New(answer.Status)
	}
	return s, json.NewDecoder(answer.Body).Decode(&s)
}

// serve reports whether every node serves.
func (c *cluster) serve(ctx context.Context) bool {
	for _, n := range c.nodes {
		if s, err := n.status(ctx); err != nil || s.Phase != "serving" {
			return false
		}
	}
	return true
}

// granted returns the rate of all parts of a topic's bucket, in messages/s.
func (c *cluster) granted(ctx context.Context, topic string) (rate float64) {
	for _, n := range c.nodes {
		if s, err := n.status(ctx); err == nil {
			rate += limitOf(s, topic).Limit
		}
	}
	return rate
}

// divided reports whether each node has the part of a topic's bucket that belongs to its publishers.
func (c *cluster) divided(ctx context.Context, topic string) bool {
	state, _, err := c.placer.Load(ctx)
	if err != nil {
		return false
	}
	parts, _, err := state.Parts(topic)
	for _, p := range parts {
		for _, n := range c.nodes {
			if n.spec.Name != p.Node {
				continue
			}
			if s, err := n.status(ctx); err != nil || limitOf(s, topic).Limit < 0.95*p.Rate {
				return false
			}
		}
	}
	return err == nil && len(parts) > 0
}

// limitOf returns what a node says of a topic's bucket, nothing where it has no part.
func limitOf(s broker.Status, topic string) (l broker.LimitStatus) {
	for _, l := range s.Limits {
		if l.Filter == topic {
			return l
		}
	}
	return l
}

// await waits until ok.
func (c *cluster) await(ctx context.Context, what string, within time.Duration, ok func(context.Context) bool) error {
	for end := time.Now().Add(within); !ok(ctx); {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %v", what, within)
		}
		for _, n := range c.nodes {
			select {
			case <-n.child.Exited():
				return fmt.Errorf("%s: %w", what, n.child.Wait())
			default:
			}
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// stop ends all nodes and removes what they stored.
func (c *cluster) stop() {
	if c.hangUp != nil {
		c.hangUp()
	}
	for _, n := range c.nodes {
		if n.child != nil {
			n.kill()
		}
	}
	_ = os.RemoveAll(c.dir)
}

// freeAddresses returns unused addresses of loopback.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := freeport.Listen()
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}
