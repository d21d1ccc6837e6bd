package config

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/broker/mqtt"
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
`))
	if err == nil {
		t.Fatal("no mistakes")
	}
	for _, want := range []string{"f.yaml:2:12: broker.listen[0]", "f.yaml:4:15: broker.limits[0].filter", "f.yaml:5:13: broker.limits[0].rate", "f.yaml:6:14: broker.limits[0].burst",
		"broker.limits[1].filter", "broker.clients.inflight", "colour"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no mistake %s in:\n%v", want, err)
		}
	}
}
