package place

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTime bounds how long an embedded server takes to start.
const startTime = 10 * time.Second

// Embed starts a NATS server with JetStream in this process: one node, which keeps its state in dir and listens
// at address, a host:port. stop ends it and returns when it has ended.
func Embed(address, dir string) (url string, stop func(), err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, fmt.Errorf("place: address %q: %w, expected host:port such as 127.0.0.1:4222", address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", nil, fmt.Errorf("place: port %q, expected 0 to 65535", text)
	}
	options := &server.Options{ServerName: "spillgate", Host: host, Port: int(port), JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true, DontListen: false}
	if port == 0 {
		options.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(options)
	if err != nil {
		return "", nil, fmt.Errorf("place: embedded NATS: %w", err)
	}
	stop = func() { s.Shutdown(); s.WaitForShutdown() }
	// Start ends the process if the port is taken, so it is tried first.
	if probe, err := net.Listen("tcp", address); err != nil {
		return "", nil, fmt.Errorf("place: embedded NATS: %w; another one may run: use it with --nats", err)
	} else {
		probe.Close()
	}
	go s.Start()
	if !s.ReadyForConnections(startTime) {
		stop()
		return "", nil, fmt.Errorf("place: embedded NATS at %s is not ready within %v; is %s writable?", address, startTime, dir)
	}
	if !s.JetStreamEnabled() {
		stop()
		return "", nil, fmt.Errorf("place: embedded NATS has no JetStream; is %s writable?", dir)
	}
	return s.ClientURL(), stop, nil
}

// Dial connects to a NATS server, or one of several with commas between, and uses the state there. more are options such
// as certificates. close ends the connection.
func Dial(ctx context.Context, url string, more ...nats.Option) (p *Placer, close func(), err error) {
	nc, err := nats.Connect(url, append(more, nats.Name("spillgate place"), nats.MaxReconnects(-1), nats.Timeout(3*time.Second))...)
	if err != nil {
		hint := ""
		if errors.Is(err, nats.ErrNoServers) {
			hint = ": start one with `spillgate place serve`, or name another with --nats"
		}
		return nil, nil, fmt.Errorf("place: NATS at %s: %w%s", url, err, hint)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if p, err = Open(ctx, nc, 1); err != nil {
		nc.Close()
		return nil, nil, err
	}
	return p, nc.Close, nil
}
