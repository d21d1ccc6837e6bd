package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/place"
)

// cluster runs brokers that share a NATS server.
func cluster(t *testing.T, n int, cfg Config) (brokers []*Broker, addresses []string) {
	t.Helper()
	url, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return clusterAt(t, n, cfg, url)
}

func clusterAt(t *testing.T, n int, cfg Config, url string) (brokers []*Broker, addresses []string) {
	t.Helper()
	for i := range n {
		c := cfg
		c.Cluster.Node, c.Cluster.URL = fmt.Sprint("n", i+1), url
		b, addr, _, _ := run(t, c)
		brokers, addresses = append(brokers, b), append(addresses, addr)
	}
	for _, b := range brokers {
		await(t, "the nodes are up", func() bool { return b.Status().Phase == "serving" })
	}
	return brokers, addresses
}

// inbox notes what a client gets.
type inbox struct {
	mu  sync.Mutex
	got []string
}

func (in *inbox) add(s string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = append(in.got, s)
}

func (in *inbox) all() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

// dial5 connects a client of MQTT 5 whose session lives for an hour, if it has a name.
func dial5(t *testing.T, addr, id string, in *inbox) *paho.Client {
	t.Helper()
	c, _ := open5(t, addr, id, in)
	t.Cleanup(func() { _ = c.Disconnect(&paho.Disconnect{}) })
	return c
}

func open5(t *testing.T, addr, id string, in *inbox) (*paho.Client, *paho.Connack) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := paho.NewClient(paho.ClientConfig{ClientID: id, Conn: nc, PacketTimeout: patience, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			in.add(p.Packet.Topic + "=" + string(p.Packet.Payload))
			return true, nil
		}}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hour := uint32(3600)
	ack, err := c.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: false, KeepAlive: 30, Properties: &paho.ConnectProperties{SessionExpiryInterval: &hour}})
	if err != nil {
		t.Fatal("connect: ", err)
	}
	return c, ack
}

func subscribe5(t *testing.T, c *paho.Client, filter string, qos byte) {
	t.Helper()
	if _, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}}); err != nil {
		t.Fatal("subscribe: ", err)
	}
}

func publish5(t *testing.T, c *paho.Client, topic string, qos byte, payload string) {
	t.Helper()
	if _, err := c.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: qos, Payload: []byte(payload)}); err != nil {
		t.Fatal("publish: ", err)
	}
}

// Messages reach the subscribers of other nodes once, whatever their QoS and however many
// filters cover them, and retained ones are seen from every node.
func TestFanOut(t *testing.T) {
	_, addr := cluster(t, 3, Config{})
	var in inbox
	sub := dial5(t, addr[0], "sub", &in)
	for _, filter := range []string{"a/#", "+/b", "$SYS/x"} {
		subscribe5(t, sub, filter, 2)
	}
	pub := client(t, addr[1], "pub")
	publish := func(topic string, qos byte, retain bool, payload string) {
		if tok := pub.Publish(topic, qos, retain, payload); !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatal(tok.Error())
		}
	}
	await(t, "the filters are known there", func() bool {
		publish("a/b", 0, false, "ready")
		return len(in.all()) > 0
	})
	in.mu.Lock()
	in.got = nil
	in.mu.Unlock()
	for i := range 30 {
		publish("a/b", byte(i%3), false, fmt.Sprint(i))
	}
	publish("other", 1, false, "x")
	publish("a", 1, true, "kept")
	await(t, "all messages", func() bool { got := in.all(); return len(got)-count(got, "a/b=ready") >= 31 })
	got := in.all()
	for i := range 30 {
		if n := count(got, fmt.Sprintf("a/b=%d", i)); n != 1 {
			t.Errorf("message %d of QoS %d came %d times", i, i%3, n)
		}
	}
	publish("a/0", 0, true, "kept too")
	await(t, "what is retained", func() bool {
		var late inbox
		c := client(t, addr[2], "late")
		c.Subscribe("a/#", 1, func(_ mqtt.Client, m mqtt.Message) { late.add(fmt.Sprintf("%s=%s", m.Topic(), m.Payload())) }).WaitTimeout(patience)
		time.Sleep(20 * time.Millisecond)
		c.Disconnect(10)
		return count(late.all(), "a=kept") == 1 && count(late.all(), "a/0=kept too") == 1
	})
}

// A node reads from the log what its clients subscribe to, from the moment on at which they are told so, and is not behind when nothing
// of that comes.
func TestFeedFollowsSubscriptions(t *testing.T) {
	brokers, addr := cluster(t, 2, Config{})
	var in inbox
	pub, sub := dial5(t, addr[0], "pub", &inbox{}), dial5(t, addr[1], "sub", &in)
	var want []string
	for i := range 12 {
		topic := fmt.Sprint("wanted/", i)
		publish5(t, pub, topic, 1, "before")
		subscribe5(t, sub, []string{topic, fmt.Sprintf("wanted/%d/#", i), fmt.Sprintf("+/%d", i)}[i/4], byte(i%3))
		publish5(t, pub, topic, 1, "after")
		publish5(t, pub, fmt.Sprint("other/", i, "/x"), 2, "")
		want = append(want, topic+"=after")
	}
	after := func() []string { // what was published just before may still be on its way as a client subscribes
		return slices.DeleteFunc(in.all(), func(m string) bool { return strings.HasSuffix(m, "=before") })
	}
	await(t, "what was published", func() bool { return len(after()) >= len(want) })
	if got := after(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_ = sub.Disconnect(&paho.Disconnect{})
	await(t, "the node to know", func() bool { return brokers[1].Status().Connections == 0 }) // or QoS 0 goes to the connection that has ended
	for i := range 12 {
		publish5(t, pub, fmt.Sprint("wanted/", i), 1, "away")
	}
	end := brokers[0].plane.Position() // or later: it has a session of its own
	await(t, "the node to be up to date", func() bool { return brokers[1].plane.Position() >= max(end, 48) })
	again, ack := open5(t, addr[1], "sub", &in)
	defer again.Disconnect(&paho.Disconnect{})
	if !ack.SessionPresent {
		t.Error("the session is forgotten")
	}
	await(t, "what was missed", func() bool { return len(after()) >= len(want)+12 })
	for i := range 12 {
		if n := count(in.all(), fmt.Sprintf("wanted/%d=away", i)); n != 1 {
			t.Errorf("what was missed of topic %d came %d times", i, n)
		}
	}
}

// What nobody at a node subscribes to does not come to it.
func TestFeedLeavesOut(t *testing.T) {
	brokers, addr := cluster(t, 2, Config{})
	var in inbox
	pub, sub := dial5(t, addr[0], "pub", &inbox{}), dial5(t, addr[1], "sub", &in)
	subscribe5(t, sub, "wanted", 1)
	for i := range 30 {
		publish5(t, pub, fmt.Sprint("other/", i), 1, "x")
	}
	publish5(t, pub, "wanted", 1, "x")
	await(t, "what is wanted", func() bool { return len(in.all()) == 1 })
	if n := brokers[1].hub.Counts().Topics; n > 5 {
		t.Errorf("the node knows %d topics", n)
	}
}

func count(all []string, what string) (n int) {
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// Of a shared subscription one member in the whole cluster gets each message, whatever its
// QoS and wherever it is published; members of another group, and subscribers of their own, get it too.
func TestSharedAcross(t *testing.T) {
	_, addr := cluster(t, 3, Config{})
	var first, second, other, own inbox
	members := map[*inbox]*paho.Client{&first: dial5(t, addr[0], "first", &first), &second: dial5(t, addr[1], "second", &second), &other: dial5(t, addr[0], "other", &other), &own: dial5(t, addr[1], "own", &own)}
	for in, filter := range map[*inbox]string{&first: "$share/g/a/#", &second: "$share/g/a/#", &other: "$share/h/a/#", &own: "a/+"} {
		subscribe5(t, members[in], filter, 2)
	}
	pubs := []*paho.Client{dial5(t, addr[1], "pub0", &inbox{}), dial5(t, addr[2], "pub1", &inbox{})}
	await(t, "all are known at every node", func() bool {
		for _, pub := range pubs {
			publish5(t, pub, "a/b", 0, "ready")
		}
		return len(first.all()) > 0 && len(second.all()) > 0 && len(other.all()) > 0 && len(own.all()) > 0
	})
	const n = 60
	for i := range n {
		publish5(t, pubs[i%2], "a/b", byte(i/2%3), fmt.Sprint(i))
	}
	of := func(ins ...*inbox) (all []string) {
		for _, in := range ins {
			for _, m := range in.all() {
				if m != "a/b=ready" {
					all = append(all, m)
				}
			}
		}
		return all
	}
	await(t, "all messages", func() bool { return len(of(&first, &second)) >= n && len(of(&other)) >= n && len(of(&own)) >= n })
	for name, got := range map[string][]string{"g": of(&first, &second), "h": of(&other), "without a group": of(&own)} {
		for i := range n {
			if times := count(got, fmt.Sprint("a/b=", i)); times != 1 {
				t.Errorf("%s: message %d of QoS %d came %d times", name, i, i/2%3, times)
			}
		}
	}
	// A member that leaves has the others get all.
	_ = members[&second].Disconnect(&paho.Disconnect{})
	await(t, "the rest is the other member's", func() bool {
		before := len(first.all())
		publish5(t, pubs[0], "a/b", 1, "later")
		publish5(t, pubs[0], "a/b", 1, "later")
		time.Sleep(5 * time.Millisecond)
		return len(first.all()) == before+2
	})
}

// A session that is away gets what it missed, at whatever node, also after all nodes
// have ended.
func TestSessionMoves(t *testing.T) {
	data := t.TempDir()
	cfg := Config{Cluster: backplane.Config{Node: "n1", Data: data}, Limits: []engine.Limit{{Filter: "slow", Rate: 100, Burst: 1}}}
	b, addr, _, stop := run(t, cfg)
	await(t, "it is up", func() bool { return b.Status().Phase == "serving" })
	var in inbox
	sub := dial5(t, addr, "sub", &in)
	subscribe5(t, sub, "#", 2)
	pub := dial5(t, addr, "pub", &inbox{})
	publish5(t, pub, "slow", 1, "0")
	await(t, "the first", func() bool { return len(in.all()) == 1 })
	_ = sub.Disconnect(&paho.Disconnect{})
	want := []string{"slow=0"}
	for i := range 20 {
		publish5(t, pub, "slow", byte(1+i%2), fmt.Sprint(i+1))
		want = append(want, fmt.Sprintf("slow=%d", i+1))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b, addr, _, _ = run(t, cfg)
	await(t, "it is up again", func() bool { return b.Status().Phase == "serving" })
	again, ack := open5(t, addr, "sub", &in)
	defer again.Disconnect(&paho.Disconnect{})
	if !ack.SessionPresent {
		t.Error("the session is forgotten")
	}
	await(t, "what was missed", func() bool { return len(in.all()) >= len(want) })
	// The order among messages of one QoS is that of publishing.
	for qos := range 2 {
		var got, those []string
		for i, m := range want[1:] {
			if i%2 == qos {
				those = append(those, m)
			}
		}
		for _, m := range in.all()[1:] {
			if slices.Contains(those, m) {
				got = append(got, m)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(those) {
			t.Errorf("of QoS %d: got %v, want %v", qos+1, got, those)
		}
	}
}

// placed runs two brokers with a topic whose bucket is at one of them, and returns that
// one's number and the other's.
func placed(t *testing.T) (brokers []*Broker, addr []string, home, other int) {
	t.Helper()
	return placedWith(t, Config{Listen: []string{"nats://127.0.0.1:0"}})
}

func placedWith(t *testing.T, cfg Config) (brokers []*Broker, addr []string, home, other int) {
	t.Helper()
	url, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	placer, end, err := place.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if _, err := placer.Update(t.Context(), func(s *place.State) error {
		return errors.Join(s.SetNode("n1", place.Node{Address: "h1:1883", Capacity: 1000}), s.SetNode("n2", place.Node{Address: "h2:1883", Capacity: 1000}),
			s.SetTopic("t", place.Limits{Rate: 500, Burst: 3, Objective: 1, Each: 1}), s.Join("t", place.Join{Publisher: "pub"}))
	}); err != nil {
		t.Fatal(err)
	}
	testWindow = 500 * time.Millisecond
	t.Cleanup(func() { testWindow = 0 })
	brokers, addr = clusterAt(t, 2, cfg, url)
	other = 1
	if at, err := placer.Place(t.Context(), "t", place.Join{Publisher: "pub"}); err != nil {
		t.Fatal(err)
	} else if at.Node == "n2" {
		home, other = 1, 0
	}
	await(t, "the bucket is at one node", func() bool { return limitOf(brokers[home], "t").Limit > 400 })
	await(t, "the other knows", func() bool { return brokers[other].plane.Elsewhere("t") })
	return brokers, addr, home, other
}

func limitOf(b *Broker, filter string) LimitStatus {
	for _, l := range b.Status().Limits {
		if l.Filter == filter {
			return l
		}
	}
	return LimitStatus{}
}

// A node that did not hear that a client is elsewhere stores nothing over its session, and
// cuts the client off.
func TestTakenOver(t *testing.T) {
	brokers, addresses := cluster(t, 2, Config{})
	c := dial5(t, addresses[0], "moves", &inbox{})
	subscribe5(t, c, "a", 1)
	s, err := brokers[1].plane.LoadSession(t.Context(), "moves")
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	s.Writer = "another"
	if err := brokers[1].plane.SaveSession(t.Context(), "moves", s); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "b", QoS: 1}}}); err == nil {
		t.Error("the old node took a subscription")
	}
	await(t, "the client to be cut off", func() bool {
		return brokers[0].mqtt.Stats().Closed[0x8E] == 1 && brokers[0].mqtt.Stats().Connections == 0
	})
	if now, err := brokers[1].plane.LoadSession(t.Context(), "moves"); err != nil || now.Revision != s.Revision {
		t.Errorf("it is stored as %+v, error %v, want revision %d", now, err, s.Revision)
	}
}

// A publisher at a node that has nothing of its topic's bucket is accepted, and what it
// publishes goes through the bucket of the node that has.
func TestWrongNode(t *testing.T) {
	brokers, addr, home, other := placed(t)
	var in inbox
	subscribe5(t, dial5(t, addr[other], "sub", &in), "t", 2)
	pub := dial5(t, addr[other], "pub", &inbox{})
	want := map[string]bool{}
	for i := range 12 {
		publish5(t, pub, "t", byte(1+i%2), fmt.Sprint(i))
		want[fmt.Sprint("t=", i)] = true
	}
	await(t, "all messages", func() bool { return len(in.all()) >= len(want) })
	for m := range want {
		if n := count(in.all(), m); n != 1 {
			t.Errorf("%s came %d times", m, n)
		}
	}
	// A message is counted after it was delivered.
	await(t, "all messages to be counted", func() bool { return limitOf(brokers[home], "t").Released >= uint64(len(want)) })
	if released := limitOf(brokers[home], "t").Released; released != 12 {
		t.Errorf("%d messages went through the bucket, want 12", released)
	}
}

// A request of a NATS client is answered from whichever node has a responder, and at once
// with "no responders" if none has: where it is forwarded, and where its topic's bucket is
// at another node.
func TestRequestAcross(t *testing.T) {
	brokers, _, home, other := placed(t)
	dial := func(b *Broker) *nats.Conn {
		addresses, _ := b.Addresses()
		nc, err := nats.Connect("nats://" + addresses[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	nc, at := dial(brokers[other]), []*nats.Conn{dial(brokers[home]), dial(brokers[other])}
	for _, subject := range []string{"free.of.limits", "t"} {
		for range 20 {
			if _, err := nc.Request(subject, nil, patience); !errors.Is(err, nats.ErrNoResponders) {
				t.Fatalf("%s, nobody there: %v", subject, err)
			}
		}
		for i, responder := range at {
			sub, err := responder.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte("yes")) })
			if err != nil || responder.Flush() != nil {
				t.Fatal(err)
			}
			await(t, "the answer", func() bool {
				m, err := nc.Request(subject, nil, patience)
				if err != nil && !errors.Is(err, nats.ErrNoResponders) { // the other node has not heard of it yet
					t.Fatalf("%s, responder %d: %v", subject, i, err)
				}
				return err == nil && string(m.Data) == "yes"
			})
			if err := sub.Unsubscribe(); err != nil || responder.Flush() != nil {
				t.Fatal(err)
			}
			await(t, "nobody again", func() bool {
				_, err := nc.Request(subject, nil, time.Second)
				return errors.Is(err, nats.ErrNoResponders)
			})
		}
	}
}

// A NATS client that wants no echo gets none of what it publishes to a topic whose bucket is at another node.
func TestNoEchoAcross(t *testing.T) {
	brokers, _, _, other := placed(t)
	addresses, _ := brokers[other].Addresses()
	dial := func(o ...nats.Option) (*nats.Conn, chan *nats.Msg) {
		nc, err := nats.Connect("nats://"+addresses[1], o...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		got := make(chan *nats.Msg, 10)
		if _, err := nc.ChanSubscribe("t", got); err != nil || nc.Flush() != nil {
			t.Fatal(err)
		}
		return nc, got
	}
	quiet, own := dial(nats.NoEcho())
	_, others := dial()
	if err := quiet.Publish("t", []byte("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-others:
	case <-time.After(patience):
		t.Fatal("nobody got it")
	}
	if err := quiet.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(own) > 0 {
		t.Error("its publisher got it")
	}
}

// A client that subscribes to a new subject and asks for an answer there at once gets it, wherever the responder is.
func TestAnswerOnANewSubject(t *testing.T) {
	brokers, _, home, other := placed(t)
	dial := func(b *Broker) *nats.Conn {
		addresses, _ := b.Addresses()
		nc, err := nats.Connect("nats://"+addresses[1], nats.UseOldRequestStyle()) // which takes a new subject for each answer
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	nc, at := dial(brokers[other]), dial(brokers[home])
	for _, subject := range []string{"free.of.limits", "t"} {
		if _, err := at.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte("yes")) }); err != nil || at.Flush() != nil {
			t.Fatal(err)
		}
		await(t, "a first answer", func() bool {
			_, err := nc.Request(subject, nil, time.Second)
			return err == nil
		})
		for n := range 300 {
			if _, err := nc.Request(subject, nil, patience); err != nil {
				t.Fatalf("%s, request %d: %v", subject, n, err)
			}
		}
	}
}

// The same holds of a question of QoS 1, which goes by the log.
func TestAnswerToAStoredQuestion(t *testing.T) {
	_, addr := cluster(t, 2, Config{})
	responder := client(t, addr[0], "responder")
	if tok := responder.Subscribe("question", 1, func(c mqtt.Client, m mqtt.Message) { c.Publish(string(m.Payload()), 0, false, "yes") }); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal("subscribe: ", tok.Error())
	}
	asker := client(t, addr[1], "asker")
	for n := range 100 {
		answer := make(chan struct{}, 1)
		at := fmt.Sprint("answer/", n)
		if tok := asker.Subscribe(at, 0, func(mqtt.Client, mqtt.Message) { answer <- struct{}{} }); !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatal("subscribe: ", tok.Error())
		}
		asker.Publish("question", 1, false, at)
		select {
		case <-answer:
		case <-time.After(patience):
			t.Fatalf("no answer to question %d", n)
		}
	}
}

// A client that understands it is sent to its node, when it publishes, or as it connects
// if it says what it is going to publish to.
func TestServerReference(t *testing.T) {
	_, addr, home, other := placed(t)
	moved := make(chan string, 1)
	nc, err := net.Dial("tcp", addr[other])
	if err != nil {
		t.Fatal(err)
	}
	c := paho.NewClient(paho.ClientConfig{ClientID: "wise", Conn: nc, PacketTimeout: patience, OnServerDisconnect: func(d *paho.Disconnect) { moved <- fmt.Sprintf("%#x %s", d.ReasonCode, d.Properties.ServerReference) }})
	if _, err := c.Connect(t.Context(), &paho.Connect{ClientID: "wise", CleanStart: true, Properties: &paho.ConnectProperties{User: paho.UserProperties{{Key: "spillgate-redirect", Value: "1"}}}}); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Publish(t.Context(), &paho.Publish{Topic: "t", QoS: 0, Payload: []byte("x")})
	select {
	case got := <-moved:
		if want := fmt.Sprintf("0x9c h%d:1883", home+1); got != want {
			t.Errorf("it was sent away with %s, want %s", got, want)
		}
	case <-time.After(patience):
		t.Error("a client that understands it was not sent to its node")
	}
	nc2, err := net.Dial("tcp", addr[other])
	if err != nil {
		t.Fatal(err)
	}
	defer nc2.Close()
	early := paho.NewClient(paho.ClientConfig{ClientID: "early", Conn: nc2, PacketTimeout: patience})
	ack, err := early.Connect(t.Context(), &paho.Connect{ClientID: "early", CleanStart: true, Properties: &paho.ConnectProperties{User: paho.UserProperties{
		{Key: "spillgate-redirect", Value: "1"}, {Key: "spillgate-topic", Value: "t"}}}})
	if err == nil || ack == nil || ack.ReasonCode != 0x9c || ack.Properties.ServerReference != fmt.Sprintf("h%d:1883", home+1) {
		t.Errorf("CONNACK is %+v, %v; want 0x9c", ack, err)
	}
}

// A log that is full refuses with 0x97, one without a majority with 0x83, and neither
// acknowledges what it has not.
func TestNotStored(t *testing.T) {
	url, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, addr := clusterAt(t, 1, Config{Cluster: backplane.Config{MaxBytes: 1 << 20, Patience: 100 * time.Millisecond}}, url)
	nc, err := net.Dial("tcp", addr[0])
	if err != nil {
		t.Fatal(err)
	}
	pub := paho.NewClient(paho.ClientConfig{ClientID: "pub", Conn: nc, PacketTimeout: patience})
	if _, err := pub.Connect(t.Context(), &paho.Connect{ClientID: "pub", CleanStart: true}); err != nil {
		t.Fatal(err)
	}
	defer pub.Disconnect(&paho.Disconnect{})
	big := strings.Repeat("x", 100<<10)
	codes := map[byte]int{}
	for end := time.Now().Add(patience); codes[0]+codes[0x97] < 20 && time.Now().Before(end); { // a busy machine may not store in time
		if r, err := pub.Publish(t.Context(), &paho.Publish{Topic: "t", QoS: 1, Payload: []byte(big)}); err == nil {
			codes[0]++
		} else if r != nil {
			codes[r.ReasonCode]++
		}
	}
	delete(codes, 0x83)
	if codes[0x97] < 5 || codes[0] < 5 || codes[0]+codes[0x97] != 20 || len(codes) != 2 {
		t.Errorf("answers are %v, want some of 0 and then 0x97", codes)
	}
	stop()
	if r, err := pub.Publish(t.Context(), &paho.Publish{Topic: "t", QoS: 1, Payload: []byte("y")}); err == nil || r == nil || r.ReasonCode != 0x83 {
		t.Errorf("without a log: %+v, %v; want 0x83", r, err)
	}
}

// A client that is far behind is read to from the log, and misses nothing.
func TestBehind(t *testing.T) {
	cfg := Config{Cluster: backplane.Config{Node: "n1", Data: t.TempDir()}}
	cfg.Clients.Queue = 20
	b, addr, _, _ := run(t, cfg)
	await(t, "it is up", func() bool { return b.Status().Phase == "serving" })
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var in inbox
	goOn := make(chan struct{})
	sub := paho.NewClient(paho.ClientConfig{ClientID: "sub", Conn: nc, PacketTimeout: patience, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			<-goOn
			in.add(string(p.Packet.Payload))
			return true, nil
		}}})
	few, hour := uint16(5), uint32(3600)
	if _, err := sub.Connect(t.Context(), &paho.Connect{ClientID: "sub", KeepAlive: 30, Properties: &paho.ConnectProperties{ReceiveMaximum: &few, SessionExpiryInterval: &hour}}); err != nil {
		t.Fatal(err)
	}
	defer sub.Disconnect(&paho.Disconnect{})
	subscribe5(t, sub, "a/+", 1)
	subscribe5(t, sub, "+/b", 1)
	pub := client(t, addr, "pub")
	const n = 400
	var tokens []mqtt.Token
	var want []string
	for i := range n {
		tokens = append(tokens, pub.Publish("a/b", 1, false, fmt.Sprint(i)), pub.Publish("c", 1, false, "other"))
		want = append(want, fmt.Sprint(i))
		if i == n/2 {
			close(goOn)
		}
	}
	for _, tok := range tokens {
		if !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatal("publish: ", tok.Error())
		}
	}
	await(t, "all messages", func() bool { return len(in.all()) >= n })
	if got := in.all(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %d messages, out of order or twice: %v", len(got), got)
	}
	if dropped := b.Status().Dropped["session_queue"]; dropped > 0 {
		t.Errorf("%d messages were dropped", dropped)
	}
}
