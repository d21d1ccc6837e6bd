package broker

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/nats-io/nats.go"
	"github.com/nsqio/go-nsq"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
)

// Where messages are stored, every protocol still reaches the others, and a stored
// session belongs to its user.
func TestStoredProtocols(t *testing.T) {
	cfg := Config{Listen: []string{"127.0.0.1:0", "nats://127.0.0.1:0", "nsq://127.0.0.1:0"}, Cluster: backplane.Config{Node: "n1", Data: t.TempDir()},
		Access: access.Config{Users: []access.User{{Name: "a", Password: hash(t, "a")}, {Name: "b", Password: hash(t, "b")}}, Anonymous: access.Anonymous{From: "loopback"}}}
	b, at := serve(t, cfg)
	await(t, "the node to serve", func() bool { return b.phase.Load() == serving })
	o := options(at[0], "a", "a", nil).SetCleanSession(false).SetClientID("stays")
	c, err := connect(t, o)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	if tok := c.Subscribe("x/#", 1, func(_ mqtt.Client, m mqtt.Message) { got <- "mqtt " + string(m.Payload()) }); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	nc, err := nats.Connect("nats://"+at[1], nats.NoReconnect(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe("x.*", func(m *nats.Msg) { got <- "nats " + string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	consumer, err := nsq.NewConsumer("x.1", "c", nsq.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	consumer.SetLoggerLevel(nsq.LogLevelMax)
	consumer.AddHandler(nsq.HandlerFunc(func(m *nsq.Message) error { got <- "nsq " + string(m.Body); return nil }))
	if err := consumer.ConnectToNSQD(at[2]); err != nil {
		t.Fatal(err)
	}
	defer func() { consumer.Stop(); <-consumer.StopChan }()
	await(t, "all to be subscribed", func() bool { return b.hub.Counts().Subscriptions == 3 })
	for _, send := range []func() error{
		func() error { return producer(t, at[2], nil).Publish("x.1", []byte("m")) },
		func() error { return nc.Publish("x.1", []byte("m")) },
		func() error {
			tok := c.Publish("x/1", 1, false, "m")
			tok.WaitTimeout(patience)
			return tok.Error()
		},
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		have := map[string]int{}
		for range 3 {
			select {
			case m := <-got:
				have[m]++
			case <-time.After(patience):
				t.Fatalf("only %v came", have)
			}
		}
		if have["mqtt m"] != 1 || have["nats m"] != 1 || have["nsq m"] != 1 {
			t.Errorf("came %v", have)
		}
	}
	if _, err := nc.Request("nobody", nil, patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a request that nobody subscribes to: %v", err)
	}
	c.Disconnect(10)
	await(t, "the client to be away", func() bool { return b.Status().Protocols["mqtt"].Connections == 0 })
	if _, err := connect(t, options(at[0], "b", "b", nil).SetCleanSession(false).SetClientID("stays")); err == nil {
		t.Error("another user has the session")
	}
	if _, err := connect(t, o); err != nil {
		t.Errorf("its own user has not: %v", err)
	}
}

// A client that is connected to one node stays there when another user names it at
// another node, also if its session is not stored; its own user takes it along.
func TestClaimIsItsUsers(t *testing.T) {
	_, addr := cluster(t, 2, Config{Access: access.Config{Users: []access.User{{Name: "a", Password: hash(t, "a")}, {Name: "b", Password: hash(t, "b")}}}})
	lost := make(chan error, 1)
	o := options(addr[0], "a", "a", nil).SetCleanSession(true).SetClientID("here").SetAutoReconnect(false)
	o.SetConnectionLostHandler(func(_ mqtt.Client, err error) { lost <- err })
	if _, err := connect(t, o); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, options(addr[1], "b", "b", nil).SetCleanSession(true).SetClientID("here")); err == nil {
		t.Error("another user has the client's name at another node")
	}
	select {
	case err := <-lost:
		t.Fatalf("another user has disconnected it: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := connect(t, options(addr[1], "a", "a", nil).SetCleanSession(true).SetClientID("here")); err != nil {
		t.Errorf("its own user has not its name at another node: %v", err)
	}
	select {
	case <-lost:
	case <-time.After(patience):
		t.Error("it is at two nodes at once")
	}
}

// A client that is connected to one node, and whose session is not stored, is not placed for another user that names it at another
// node. Its own user is sent to where it belongs, or stays where nobody says that in time.
func TestPlaceIsItsUsers(t *testing.T) {
	may := []string{"#"}
	_, addr, home, other := placedWith(t, Config{Access: access.Config{Users: []access.User{{Name: "a", Password: hash(t, "a"), Publish: may}, {Name: "b", Password: hash(t, "b"), Publish: may}}}})
	if _, err := connect(t, options(addr[home], "a", "a", nil).SetCleanSession(true).SetClientID("here")); err != nil {
		t.Fatal(err)
	}
	answer := func(user string) *paho.Connack {
		nc, err := net.Dial("tcp", addr[other])
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ack, err := paho.NewClient(paho.ClientConfig{Conn: nc, PacketTimeout: patience}).Connect(ctx, &paho.Connect{ClientID: "here", CleanStart: true,
			Username: user, UsernameFlag: true, Password: []byte(user), PasswordFlag: true,
			Properties: &paho.ConnectProperties{User: paho.UserProperties{{Key: "spillgate-redirect", Value: "1"}, {Key: "spillgate-topic", Value: "t"}}}})
		if ack == nil {
			t.Fatal(user, ": ", err)
		}
		return ack
	}
	if ack := answer("b"); ack.ReasonCode != packets.ErrNotAuthorized.Code {
		t.Errorf("another user: %+v; want reason %#x", ack, packets.ErrNotAuthorized.Code)
	}
	await(t, "its own user to be sent where it belongs", func() bool {
		ack := answer("a")
		if ack.ReasonCode != packets.ErrUseAnotherServer.Code && ack.ReasonCode != 0 {
			t.Fatalf("its own user: %+v", ack)
		}
		return ack.ReasonCode != 0
	})
}
