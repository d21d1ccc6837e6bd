// Package main is a publisher that follows redirects to the broker node with room for its
// topic.
//
//	go run ./examples/publisher sensors mqtt://127.0.0.1:1883 mqtt://127.0.0.1:1884
//
// It publishes ten messages a second to the topic, and asks for a p99 of 5 ms, which counts if the topic's owner allows that.
// Following redirects takes one call of client.Follow; the rest is an ordinary client of autopaho.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spillgate/spillgate/broker/client"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: publisher TOPIC URL…")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run publishes until ctx ends.
func run(ctx context.Context, topic string, servers []string, out io.Writer) error {
	cfg := autopaho.ClientConfig{KeepAlive: 30, SessionExpiryInterval: 300, ConnectTimeout: 5 * time.Second,
		ReconnectBackoff: autopaho.NewConstantBackoff(100 * time.Millisecond),
		OnConnectionUp:   func(*autopaho.ConnectionManager, *paho.Connack) { fmt.Fprintln(out, "connected") },
		ClientConfig: paho.ClientConfig{ClientID: "example-publisher", OnServerDisconnect: func(d *paho.Disconnect) {
			if d.Properties != nil {
				fmt.Fprintln(out, "sent to", d.Properties.ServerReference)
			}
		}}}
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			return err
		}
		cfg.ServerUrls = append(cfg.ServerUrls, u)
	}
	client.Follow(&cfg, client.Says{Objective: 5 * time.Millisecond})
	c, err := autopaho.NewConnection(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Disconnect(ctx)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.AwaitConnection(ctx); err != nil {
			return nil // interrupted
		}
		if _, err := c.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: fmt.Append(nil, n)}); err == nil && n%10 == 0 {
			fmt.Fprintln(out, n, "published")
		}
	}
}
