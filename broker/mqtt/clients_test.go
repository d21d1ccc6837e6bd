package mqtt

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	old "github.com/eclipse/paho.mqtt.golang"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/needs"
)

// inbox notes messages from any goroutine.
type inbox struct {
	mu  sync.Mutex
	got []string
}

func (b *inbox) add(topic, payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, topic+"="+payload)
}

func (b *inbox) await(t *testing.T, want ...string) {
	t.Helper()
	await(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.got) >= len(want) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if fmt.Sprint(b.got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", b.got, want)
	}
}

// Eclipse's client for Go and MQTT 3.1.1, through a shaped topic.
func TestPahoGo311(t *testing.T) {
	_, addr := start(t, Limits{}, engine.Limit{Filter: "plant/+/slow", Rate: 200, Burst: 5})
	dial := func(id string) old.Client {
		c := old.NewClient(old.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(id).SetAutoReconnect(false))
		if tok := c.Connect(); !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatal("connect: ", tok.Error())
		}
		t.Cleanup(func() { c.Disconnect(100) })
		return c
	}
	sub, pub := dial("sub"), dial("pub")
	var in inbox
	if tok := sub.Subscribe("plant/#", 2, func(_ old.Client, m old.Message) { in.add(m.Topic(), string(m.Payload())) }); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal("subscribe: ", tok.Error())
	}
	var want []string
	var tokens []old.Token
	for i := range 30 {
		tokens = append(tokens, pub.Publish("plant/1/slow", byte(i%3), false, fmt.Sprint(i)))
		want = append(want, fmt.Sprintf("plant/1/slow=%d", i))
	}
	for i, tok := range tokens {
		if !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatalf("message %d: %v", i, tok.Error())
		}
	}
	in.await(t, want...)
}

// Eclipse's client for Go and MQTT 5: shared subscriptions, properties, and the
// reason code of what is refused.
func TestPahoGo5(t *testing.T) {
	_, addr := start(t, Limits{}, engine.Limit{Filter: "hard", Rate: 0.001, Burst: 1, Police: true})
	dial := func(id string, in *inbox) *paho.Client {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := paho.NewClient(paho.ClientConfig{ClientID: id, Conn: nc, PacketTimeout: patience, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(p paho.PublishReceived) (bool, error) {
				in.add(p.Packet.Topic, string(p.Packet.Payload)+p.Packet.Properties.ContentType)
				return true, nil
			}}})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := c.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 30}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Disconnect(&paho.Disconnect{}) })
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var one, two, none inbox
	for id, in := range map[string]*inbox{"one": &one, "two": &two} {
		if _, err := dial(id, in).Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "$share/g/jobs/+", QoS: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	pub := dial("pub", &none)
	for i := range 10 {
		if _, err := pub.Publish(ctx, &paho.Publish{Topic: "jobs/1", QoS: 2, Payload: fmt.Append(nil, i), Properties: &paho.PublishProperties{ContentType: "!"}}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		two.mu.Lock()
		defer two.mu.Unlock()
		return len(one.got) == 5 && len(two.got) == 5 && strings.HasSuffix(one.got[0], "!")
	})
	if _, err := pub.Publish(ctx, &paho.Publish{Topic: "hard", QoS: 1, Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if r, err := pub.Publish(ctx, &paho.Publish{Topic: "hard", QoS: 1, Payload: []byte("x")}); err == nil || r == nil || r.ReasonCode != 0x97 {
		t.Errorf("the second was answered %+v, %v; want 0x97", r, err)
	}
}

// mosquitto's programs, both protocols, all QoS, retained messages.
func TestMosquittoClients(t *testing.T) {
	pub, sub := needs.Program(t, "mosquitto_pub"), needs.Program(t, "mosquitto_sub")
	_, addr := start(t, Limits{}, engine.Limit{Filter: "m/+", Rate: 100, Burst: 1})
	host, port, _ := net.SplitHostPort(addr)
	for _, version := range []string{"mqttv311", "mqttv5"} {
		for _, qos := range []string{"0", "1", "2"} {
			common := []string{"-h", host, "-p", port, "-V", version, "-q", qos}
			run := func(program string, args ...string) string {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				out, err := exec.CommandContext(ctx, program, append(common[:len(common):len(common)], args...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%s %s: %v: %s", program, args, err, out)
				}
				return string(out)
			}
			run(pub, "-t", "m/kept", "-r", "-m", "old "+version+qos)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			listening := exec.CommandContext(ctx, sub, append(common[:len(common):len(common)], "-t", "m/#", "-C", "6", "-F", "%t %p %r")...)
			out, err := listening.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := listening.Start(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if got = append(got, lines.Text()); len(got) == 1 { // it has subscribed
					for i := range 5 {
						run(pub, "-t", "m/x", "-m", fmt.Sprint(i))
					}
				}
			}
			if err := listening.Wait(); err != nil {
				t.Fatalf("mosquitto_sub: %v", err)
			}
			if want := fmt.Sprintf("[m/kept old %s%s 1 m/x 0 0 m/x 1 0 m/x 2 0 m/x 3 0 m/x 4 0]", version, qos); fmt.Sprint(got) != want {
				t.Errorf("%s, QoS %s: got %v, want %v", version, qos, got, want)
			}
		}
	}
}

const pahoPython = `
import sys, threading
import paho.mqtt.client as mqtt
host, port, version = sys.argv[1], int(sys.argv[2]), {"4": mqtt.MQTTv311, "5": mqtt.MQTTv5}[sys.argv[3]]
done, ready, got = threading.Event(), threading.Event(), []
args = {} if not hasattr(mqtt, "CallbackAPIVersion") else {"callback_api_version": mqtt.CallbackAPIVersion.VERSION1}
c = mqtt.Client(client_id="python", protocol=version, **args)
c.on_connect = lambda c, *_: c.subscribe("py/#", 2)
c.on_subscribe = lambda *_: ready.set()
def message(c, _, m):
    got.append("%s=%s:%d" % (m.topic, m.payload.decode(), m.qos))
    if len(got) == 6: done.set()
c.on_message = message
c.will_set("py/will", "gone", 1)
c.connect(host, port, keepalive=5)
c.loop_start()
ready.wait(60) or sys.exit("no SUBACK")
for i in range(6):
    c.publish("py/%d" % i, str(i), qos=i % 3).wait_for_publish()
done.wait(60) or sys.exit("got %s" % got)
c.disconnect()
c.loop_stop()
print(" ".join(got))
`

// Eclipse's client for Python.
func TestPahoPython(t *testing.T) {
	python := needs.Program(t, "/usr/bin/python3", "python3")
	if exec.Command(python, "-c", "import paho.mqtt.client").Run() != nil {
		needs.Dir(t, "paho-mqtt for Python")
	}
	_, addr := start(t, Limits{}, engine.Limit{Filter: "py/+", Rate: 100, Burst: 2, Shared: true})
	host, port, _ := net.SplitHostPort(addr)
	for _, version := range []string{"4", "5"} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, python, "-c", pahoPython, host, port, version).CombinedOutput()
		if got, want := strings.TrimSpace(string(out)), "py/0=0:0 py/1=1:1 py/2=2:2 py/3=3:0 py/4=4:1 py/5=5:2"; err != nil || got != want {
			t.Errorf("MQTT %s: %v: got %q, want %q", version, err, got, want)
		}
	}
}
