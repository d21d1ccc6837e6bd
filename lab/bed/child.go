package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
)

const role = proc.Role[order]("SPILLGATE_BED")

// order is the task of a child: to be a replica of Service, or the proxy in front of
// Upstream, or, without a service, all clients.
type order struct {
	// Dir holds what all children read: worldFile from the start, peersFile when all
	// services listen, beginFile when the clients are connected.
	Dir    string `json:"dir"`
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// Peers are the names of those that the run was given: a child knows more of them,
	// whose names may be those of other policies.
	Peers []string `json:"peers,omitempty"`

	Service string `json:"service,omitempty"`
	Replica int    `json:"replica,omitempty"` // from 1
	// Listen is the address to listen on: that of the process that this one replaces,
	// or any.
	Listen   string `json:"listen,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Exits are by which addresses a replica calls, by service, if not directly: those
	// of the proxy in front of it, whose Egress says where each leads.
	Exits  map[string]string `json:"exits,omitempty"`
	Egress map[string]string `json:"egress,omitempty"`
}

// given returns those of the peers that the run was given.
func (o *order) given(peers []Peer) (all []Peer) {
	for _, p := range peers {
		if slices.Contains(o.Peers, p.Name) {
			all = append(all, p)
		}
	}
	return all
}

// number counts replicas through all services.
func (o *order) number(p *plan) int {
	n := o.Replica
	for i := range p.Services {
		if p.Services[i].Name == o.Service {
			break
		}
		n += p.Services[i].Replicas
	}
	return n
}

const (
	worldFile = "world.json"
	peersFile = "peers.json"
	beginFile = "begin.json"
)

// Child does a child's work and ends the process, if this process is one that Run
// started, and returns otherwise. A program that runs worlds calls it first in main,
// with all peers that it plays.
func Child(peers ...Peer) {
	role.Play("bed", func(o order) error { return o.obey(peers) })
}

func (o order) obey(peers []Peer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var w world.World
	if err := await(ctx, o.Dir, worldFile, &w); err != nil {
		return err
	}
	p, err := newPlan(&w)
	if err != nil {
		return err
	}
	pol, err := parsePolicy(o.Policy, o.given(peers))
	if err != nil {
		return err
	}
	if o.Service == "" {
		return o.beClients(ctx, p, pol)
	}
	if o.Upstream != "" {
		return o.beProxy(ctx, p, pol)
	}
	l, err := listen(o.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("listening on", l.Addr())
	return o.beService(ctx, p, pol, l)
}

// listen takes an address, which the kernel may still keep for a process that is gone.
func listen(addr string) (net.Listener, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	const patience = 2 * time.Second
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if err == nil || time.Since(began) > patience {
			return l, err
		}
	}
}

// beService is a replica until ctx ends.
func (o *order) beService(ctx context.Context, p *plan, pol policy, l net.Listener) error {
	var peers map[string][]string
	if err := await(ctx, o.Dir, peersFile, &peers); err != nil {
		return err
	}
	for service, exit := range o.Exits {
		peers[service] = []string{exit}
	}
	// The faults count from the beginning, which the clients wait for as well.
	x, err := newProcess(o, p, pol, peers)
	if err != nil {
		return err
	}
	defer x.close()
	looks := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		looks <- o.look(ctx, p, x)
	}()
	if pol.over == overGRPC {
		err = x.serveRPC(ctx, l)
	} else {
		err = x.serveWeb(ctx, l)
	}
	stop()
	return errors.Join(err, <-looks)
}

// publish writes a file for all children.
func publish(dir, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, name+".new")
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, name))
}

// read reads a file that another process may have published.
func read(dir, name string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// await waits until another process has published a file, and reads it.
func await(ctx context.Context, dir, name string, v any) error {
	const pause = 5 * time.Millisecond
	for {
		if err := read(dir, name, v); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
