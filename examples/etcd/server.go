package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/guard/etcd"
)

// server is an embedded etcd behind a gate.
type server struct {
	etcd  *embed.Etcd
	gate  *spillgate.Gate
	guard *etcd.Guard
	dir   string
}

// open starts etcd on loopback, in a temporary directory. With control it stands behind a
// gate, whose culprits are told to notify.
func open(ctx context.Context, control bool, objective time.Duration, notify func(spillgate.CulpritNotice)) (_ *server, err error) {
	s := &server{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "spillgate-etcd-"); err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = s.dir, "fatal"
	cfg.UnsafeNoFsync = true // nothing here must survive
	cfg.MaxTxnOps = 10_000
	client, errClient := free()
	peer, errPeer := free()
	if err := errors.Join(errClient, errPeer); err != nil {
		return nil, err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if control {
		options := spillgate.Config{}
		options.Objective = objective
		options.Culprit.Mode = spillgate.EnforceCulprits
		options.Culprit.Notify = notify
		if s.gate, err = spillgate.NewWith(options); err != nil {
			return nil, err
		}
		// These three lines put etcd behind the gate.
		if s.guard, err = etcd.New(s.gate); err != nil {
			return nil, err
		}
		cfg.GRPCAdditionalServerOptions = s.guard.ServerOptions()
	}
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		return nil, err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return s, nil
	case err := <-s.etcd.Err():
		return nil, fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// address is where etcd's clients connect.
func (s *server) address() string { return s.etcd.Clients[0].Addr().String() }

func (s *server) close() {
	if s.etcd != nil {
		s.etcd.Close()
	}
	if s.gate != nil {
		s.gate.Close()
	}
	if s.guard != nil {
		s.guard.Close()
	}
	os.RemoveAll(s.dir)
}

// free returns an unused port of loopback.
func free() ([]url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return []url.URL{{Scheme: "http", Host: l.Addr().String()}}, nil
}
