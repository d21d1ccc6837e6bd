// Package client lets a publisher of MQTT 5 follow redirects to the broker node that holds
// its topic.
//
//	CONNECT: redirect, group, objective ──▶ any node ◀── publishes to a placed topic
//	                                          │ belongs elsewhere
//	DISCONNECT 0x9C, Server Reference ──▶ the client dials that node, and goes on
//
// It extends the configuration of github.com/eclipse/paho.golang/autopaho, which
// reconnects by itself and keeps unacknowledged messages. If the node of a redirect cannot
// be reached, the client dials one of the configured nodes.
//
// What this package does not do: it is not required. A client without it may connect to
// any node, and that node forwards its messages.
package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spillgate/spillgate/broker/mqtt"
)

// Says is what a client says of itself for its placement: the group of publishers that publish at the same instants, and
// the p99 that it asks for. The zero value says nothing.
type Says = mqtt.Says

// Follow has the client of cfg go where a node's Server Reference sends it, and tells nodes what it says of itself. It must be called
// last, before autopaho.NewConnection; servers are dialled by TCP, or by TLS with cfg.TlsCfg
// where their scheme says so.
func Follow(cfg *autopaho.ClientConfig, says Says) {
	f := &follower{}
	build, told := cfg.ConnectPacketBuilder, cfg.OnServerDisconnect
	cfg.ConnectPacketBuilder = func(c *paho.Connect, u *url.URL) (*paho.Connect, error) {
		if c.Properties == nil {
			c.Properties = &paho.ConnectProperties{}
		}
		c.Properties.User.Add(mqtt.PropertyRedirect, "1")
		if says.Group != "" {
			c.Properties.User.Add(mqtt.PropertyGroup, says.Group)
		}
		if says.Objective > 0 {
			c.Properties.User.Add(mqtt.PropertyObjective, says.Objective.String())
		}
		if build != nil {
			return build(c, u)
		}
		return c, nil
	}
	cfg.OnServerDisconnect = func(d *paho.Disconnect) {
		if (d.ReasonCode == useAnother || d.ReasonCode == moved) && d.Properties != nil {
			f.set(d.Properties.ServerReference)
		}
		if told != nil {
			told(d)
		}
	}
	cfg.AttemptConnection = f.dial
}

// Reason codes that come with a Server Reference.
const (
	useAnother = 0x9C
	moved      = 0x9D
)

// follower knows where a client was sent.
type follower struct {
	mu sync.Mutex
	to string
}

func (f *follower) set(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
}

// dial connects to where the client was sent, or else to u.
func (f *follower) dial(ctx context.Context, cfg autopaho.ClientConfig, u *url.URL) (net.Conn, error) {
	f.mu.Lock()
	to := f.to
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	open := (&net.Dialer{}).DialContext
	switch strings.ToLower(u.Scheme) {
	case "ssl", "tls", "mqtts", "mqtt+ssl", "tcps":
		open = (&tls.Dialer{Config: cfg.TlsCfg}).DialContext
	}
	if to != "" {
		if c, err := open(ctx, "tcp", to); err == nil {
			return c, nil
		}
		f.set("")
	}
	return open(ctx, "tcp", u.Host)
}
