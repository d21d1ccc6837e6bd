package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/nats"
	"github.com/spillgate/spillgate/broker/nsq"
)

// The example has every key, with its default.
func TestBrokerExample(t *testing.T) {
	f, err := Load("../examples/broker/spillgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := f.Broker
	if f.HasProxy() || b == nil || len(b.Limits) != 2 || !b.Limits[1].Police || !b.Limits[1].Shared || b.Limits[0].Rate != 100 {
		t.Fatalf("the example is read as %+v", b)
	}
	if b.Clients != (mqtt.Limits{}).WithDefaults() {
		t.Errorf("the limits of clients are %+v, not the defaults", b.Clients)
	}
	if b.NATS != (nats.Limits{}).WithDefaults() || b.NSQ != (nsq.Limits{}).WithDefaults() {
		t.Errorf("the limits of NATS are %+v and those of NSQ %+v, not the defaults", b.NATS, b.NSQ)
	}
	if fmt.Sprint(b.Listen) != "[127.0.0.1:1883 nats://127.0.0.1:4222 nsq://127.0.0.1:4150]" || b.Access.Anonymous.From != "loopback" {
		t.Errorf("listeners %v, anonymous clients from %s", b.Listen, b.Access.Anonymous.From)
	}
}

func TestBrokerMistakes(t *testing.T) {
	_, err := Decode("f.yaml", []byte(`broker:
  listen: [here]
  limits:
    - filter: a/#/b
      rate: fast
      burst: 0.5
    - rate: 1
      burst: 1
  clients: {inflight: 100000, colour: red}
  tls: {cert: a.pem}
  passwords: some
  users:
    - name: a:b
      password: secret
      publish: [x/#/y]
  anonymous: {from: home}
  nats: {payload: 1}
  nsq: {ready: -1, heartbeat: -1s}
`))
	if err == nil {
		t.Fatal("no mistakes")
	}
	for _, want := range []string{"f.yaml:2:12: broker.listen[0]", "f.yaml:4:15: broker.limits[0].filter", "f.yaml:5:13: broker.limits[0].rate", "f.yaml:6:14: broker.limits[0].burst",
		"broker.limits[1].filter", "broker.clients.inflight", "colour",
		"broker.tls.key", "f.yaml:13:13: broker.users[0].name", "broker.users[0].password", "broker.users[0].publish[0]", "broker.anonymous.from", "broker.nats.payload", "broker.nsq.ready", "broker.nsq.heartbeat"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no mistake %s in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a password is shown:\n%v", err)
	}
}

// Paths are relative to the file, those of the nodes as well.
func TestBrokerPaths(t *testing.T) {
	c := broker.Config{TLS: broker.TLS{Cert: "a.pem"}, Cluster: backplane.Config{Data: "n1", CA: "ca.pem", Cert: "n1.pem", Key: "/keys/n1.key"}}
	brokerPaths("etc", &c)
	if n := c.Cluster; c.TLS.Cert != "etc/a.pem" || n.Data != "etc/n1" || n.CA != "etc/ca.pem" || n.Cert != "etc/n1.pem" || n.Key != "/keys/n1.key" {
		t.Errorf("paths are %+v and %+v", c.TLS, n)
	}
}
