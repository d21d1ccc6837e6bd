package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	natsedge "github.com/spillgate/spillgate/broker/nats"
)

// stored runs a node that stores, with a listener for NATS and one for MQTT.
func stored(t *testing.T, cfg Config) (nats, mqtt string) {
	t.Helper()
	cfg.Listen, cfg.Cluster = []string{"nats://127.0.0.1:0", "127.0.0.1:0"}, backplane.Config{Node: "n1", Data: t.TempDir()}
	b, at := serve(t, cfg)
	await(t, "the node to serve", func() bool { return b.phase.Load() == serving })
	return at[0], at[1]
}

// streamsOf connects a stock client.
func streamsOf(t *testing.T, addr string, more ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr, append(more, nats.NoReconnect(), nats.Timeout(patience))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// must fails the test on an error.
func must[T any](t *testing.T, what string) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

// A stock client makes a stream, publishes to it, and reads it with a pull consumer.
func TestStream(t *testing.T) {
	at, mqttAt := stored(t, Config{})
	ctx := t.Context()
	_, js := streamsOf(t, at)
	s := must[jetstream.Stream](t, "stream")(js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}))
	m := nats.NewMsg("orders.1")
	m.Data, m.Header = []byte("first"), nats.Header{"Kind": {"a", "b"}}
	if ack := must[*jetstream.PubAck](t, "publish")(js.PublishMsg(ctx, m, jetstream.WithMsgID("x"))); ack.Stream != "ORDERS" || ack.Sequence != 1 {
		t.Errorf("acknowledged as %+v", ack)
	}
	if ack := must[*jetstream.PubAck](t, "publish")(js.PublishMsg(ctx, m, jetstream.WithMsgID("x"))); !ack.Duplicate {
		t.Error("a message with the same number is stored twice")
	}
	if _, err := js.Publish(ctx, "nobody.1", nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("a subject without a stream: %v", err)
	}
	c := client(t, mqttAt, "publisher")
	for i := range 9 {
		if tok := c.Publish(fmt.Sprint("orders/", i), byte(i%3), false, "m"); !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatal("publish over MQTT: ", tok.Error())
		}
	}
	await(t, "what MQTT has published to be stored", func() bool { return must[*jetstream.StreamInfo](t, "info")(s.Info(ctx)).State.Msgs == 10 })

	consumer := must[jetstream.Consumer](t, "consumer")(s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute}))
	batch := must[jetstream.MessageBatch](t, "fetch")(consumer.Fetch(4, jetstream.FetchMaxWait(patience)))
	var got []jetstream.Msg
	for msg := range batch.Messages() {
		got = append(got, msg)
	}
	if len(got) != 4 || batch.Error() != nil {
		t.Fatalf("got %d messages, %v", len(got), batch.Error())
	}
	if first := got[0]; first.Subject() != "orders.1" || string(first.Data()) != "first" || strings.Join(first.Headers()["Kind"], "") != "ab" {
		t.Errorf("the first is %s=%s, %v", first.Subject(), first.Data(), first.Headers())
	}
	for i, msg := range got {
		if meta := must[*jetstream.MsgMetadata](t, "metadata")(msg.Metadata()); meta.Sequence.Stream != uint64(i+1) || meta.Stream != "ORDERS" {
			t.Errorf("%d is %+v", i, meta)
		}
		if err := msg.DoubleAck(ctx); err != nil {
			t.Errorf("acknowledging: %v", err)
		}
	}
	if info := must[*jetstream.ConsumerInfo](t, "consumer info")(consumer.Info(ctx)); info.AckFloor.Stream != 4 || info.NumPending != 6 {
		t.Errorf("the consumer has %+v acknowledged, %d to come", info.AckFloor, info.NumPending)
	}
	if b := must[jetstream.MessageBatch](t, "fetch")(consumer.FetchNoWait(1)); true {
		msg := <-b.Messages()
		if err := msg.Nak(); err != nil {
			t.Error(err)
		}
	}
	for { // NATS may answer a request before it has taken a NAK that came earlier, with the message after it
		msg := must[jetstream.Msg](t, "next")(consumer.Next(jetstream.FetchMaxWait(patience)))
		meta := must[*jetstream.MsgMetadata](t, "metadata")(msg.Metadata())
		if meta.Sequence.Stream == 5 {
			if meta.NumDelivered != 2 {
				t.Errorf("after a NAK it comes as %+v", meta)
			}
			break
		}
	}
	if raw := must[*jetstream.RawStreamMsg](t, "message")(s.GetMsg(ctx, 1)); string(raw.Data) != "first" {
		t.Errorf("the first message is %q", raw.Data)
	}
	if err := s.Purge(ctx); err != nil {
		t.Error("purge: ", err)
	}
	if err := js.DeleteStream(ctx, "ORDERS"); err != nil {
		t.Error("delete: ", err)
	}
	if _, err := js.Publish(ctx, "orders.1", nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("a stream that is gone: %v", err)
	}
}

// Consume, ordered consumers, push consumers of the older interface, and buckets of keys work as they
// do with nats-server.
func TestStreamReaders(t *testing.T) {
	at, _ := stored(t, Config{})
	ctx := t.Context()
	nc, js := streamsOf(t, at)
	s := must[jetstream.Stream](t, "stream")(js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}))
	const n = 500
	for i := range n {
		if _, err := js.PublishAsync("s.x", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("not all messages are acknowledged")
	}
	read := func(name string, start func(func(string)) (stop func())) {
		t.Helper()
		got := make(chan string, n)
		defer start(func(s string) { got <- s })()
		for i := range n {
			select {
			case s := <-got:
				if s != fmt.Sprint(i) {
					t.Fatalf("%s: %s in place of %d", name, s, i)
				}
			case <-time.After(patience):
				t.Fatalf("%s: %d messages came", name, i)
			}
		}
	}
	consume := func(c jetstream.Consumer) func(func(string)) func() {
		return func(got func(string)) func() {
			return must[jetstream.ConsumeContext](t, "consume")(c.Consume(func(m jetstream.Msg) { got(string(m.Data())); _ = m.Ack() }, jetstream.PullMaxMessages(20))).Stop
		}
	}
	read("pull", consume(must[jetstream.Consumer](t, "pull")(s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "d", FilterSubjects: []string{"s.x", "s.y"}}))))
	read("ordered", consume(must[jetstream.Consumer](t, "ordered")(s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{}))))
	old := must[nats.JetStreamContext](t, "older")(nc.JetStream(nats.MaxWait(patience)))
	read("push", func(got func(string)) func() {
		sub := must[*nats.Subscription](t, "push")(old.Subscribe("s.x", func(m *nats.Msg) { got(string(m.Data)) }, nats.OrderedConsumer(), nats.EnableFlowControl(), nats.IdleHeartbeat(time.Second)))
		return func() { _ = sub.Unsubscribe() }
	})

	kv := must[jetstream.KeyValue](t, "bucket")(js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b", History: 3}))
	watch := must[jetstream.KeyWatcher](t, "watch")(kv.Watch(ctx, "a.>"))
	must[uint64](t, "put")(kv.Put(ctx, "a.1", []byte("one")))
	if _, err := kv.Create(ctx, "a.1", nil); !errors.Is(err, jetstream.ErrKeyExists) {
		t.Errorf("a key is made twice: %v", err)
	}
	if e := must[jetstream.KeyValueEntry](t, "get")(kv.Get(ctx, "a.1")); string(e.Value()) != "one" {
		t.Errorf("the key has %q", e.Value())
	}
	if err := kv.Delete(ctx, "a.1"); err != nil {
		t.Error(err)
	}
	var ops []jetstream.KeyValueOp
	for len(ops) < 2 {
		select {
		case e := <-watch.Updates():
			if e != nil {
				ops = append(ops, e.Operation())
			}
		case <-time.After(patience):
			t.Fatalf("a watcher saw %v", ops)
		}
	}
	if ops[0] != jetstream.KeyValuePut || ops[1] != jetstream.KeyValueDelete {
		t.Errorf("a watcher saw %v", ops)
	}
	names := js.StreamNames(ctx)
	var all []string
	for name := range names.Name() {
		all = append(all, name)
	}
	if names.Err() != nil || len(all) != 2 {
		t.Errorf("the streams are %v, %v", all, names.Err())
	}
}

// What belongs to the broker itself, leads past a topic's rights, or fills the disk, is refused.
func TestStreamRefusals(t *testing.T) {
	at, _ := stored(t, Config{NATS: natsLimits(2 << 20)})
	ctx := t.Context()
	nc, js := streamsOf(t, at)
	for _, c := range []jetstream.StreamConfig{
		{Name: "A", Subjects: []string{"*.live.>"}}, {Name: "A", Subjects: []string{"spillgate.x"}}, {Name: "A", Subjects: []string{"$SYS.>"}},
		{Name: "A", Subjects: []string{"$KV.spillgate-sessions.>"}}, {Name: "SPILLGATE_LOG", Subjects: []string{"a"}}, {Name: "KV_spillgate-nodes", Subjects: []string{"a"}},
		{Name: "A", Sources: []*jetstream.StreamSource{{Name: "SPILLGATE_LOG"}}}, {Name: "A", Mirror: &jetstream.StreamSource{Name: "SPILLGATE_LOG"}},
		{Name: "A", Subjects: []string{"a"}, RePublish: &jetstream.RePublish{Source: "a", Destination: "spillgate.live.n.x"}},
		{Name: "A", Subjects: []string{"a"}, Placement: &jetstream.Placement{Cluster: "c"}}, {Name: "A", Subjects: []string{"a"}, Storage: jetstream.MemoryStorage}, {Name: "A", Subjects: []string{"a"}, MaxBytes: 3 << 20},
	} {
		if _, err := js.CreateStream(ctx, c); err == nil {
			t.Errorf("%+v is made", c)
		}
	}
	if s := must[jetstream.Stream](t, "stream")(js.CreateStream(ctx, jetstream.StreamConfig{Name: "A", Subjects: []string{"a"}, Placement: &jetstream.Placement{}})); s.CachedInfo().Config.MaxBytes != 2<<20 {
		t.Errorf("a stream without a limit has %d bytes", s.CachedInfo().Config.MaxBytes)
	}
	for _, subject := range []string{"STREAM.INFO.SPILLGATE_LOG", "STREAM.DELETE.SPILLGATE_LOG", "CONSUMER.CREATE.SPILLGATE_LOG", "DIRECT.GET.KV_spillgate-sessions", "META.LEADER.STEPDOWN",
		"STREAM.SNAPSHOT.A", "SERVER.REMOVE", "ACCOUNT.PURGE.$G", "STREAM.LEADER.STEPDOWN.A", ""} {
		m, err := nc.Request("$JS.API."+subject, []byte(`{"stream_name":"SPILLGATE_LOG","config":{}}`), patience)
		if err != nil || !strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("%s is answered %s, %v", subject, m.Data, err)
		}
	}
	for _, body := range []string{`{"name":"B","subjects":["b"],"SOURCES":[{"name":"SPILLGATE_LOG"}]}`, `{"name":"B","subjects":["b"],"Republish":{"src":"b","dest":"spillgate.x"}}`, `[`, `{"name":"B","subjects":"b"}`} {
		m, err := nc.Request("$JS.API.STREAM.CREATE.B", []byte(body), patience)
		if err != nil || !strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("%s is answered %s, %v", body, m.Data, err)
		}
	}
	for _, body := range []string{`{"stream_name":"A","config":{"durable_name":"d","DELIVER_SUBJECT":"spillgate.live.n.x"}}`, `{"stream_name":"A","config":{"deliver_subject":"spillgate.live.n.x"}}`} {
		m, err := nc.Request("$JS.API.CONSUMER.CREATE.A", []byte(body), patience)
		if err != nil || !strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("%s is answered %s, %v", body, m.Data, err)
		}
	}
	if info := must[*jetstream.AccountInfo](t, "account")(js.AccountInfo(ctx)); info == nil {
		t.Error("no account")
	}
	answers := subscribeSync(t, nc, nats.NewInbox())
	many, began := 0, time.Now()
	for range 5000 {
		if err := nc.PublishRequest("$JS.API.INFO", answers.Subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		m, err := answers.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"code":429`) {
			many++
		}
	}
	// A slow machine takes so long for all of them that most may be served.
	if most := 1100 + 1000*time.Since(began).Seconds(); float64(5000-many) > most {
		t.Errorf("%d of 5,000 requests at once are served, at most %.0f may be", 5000-many, most)
	}
}

func subscribeSync(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	s, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A message counts against its topic's bucket before it reaches its stream.
func TestStreamRate(t *testing.T) {
	at, _ := stored(t, Config{Limits: []engine.Limit{{Filter: "a/#", Rate: 1e-3, Burst: 2, Police: true}}})
	_, js := streamsOf(t, at)
	s := must[jetstream.Stream](t, "stream")(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}}))
	var late error
	for range 3 {
		_, late = js.Publish(t.Context(), "a.1", nil)
	}
	var api *jetstream.APIError
	if !errors.As(late, &api) || api.Code != 429 {
		t.Errorf("the third message is answered %v", late)
	}
	if n := must[*jetstream.StreamInfo](t, "info")(s.Info(t.Context())).State.Msgs; n != 2 {
		t.Errorf("%d messages are stored", n)
	}
}

// Users have the streams' interface only by right, and no messages of topics that they may not subscribe to.
func TestStreamRights(t *testing.T) {
	user := func(name string, publish, subscribe []string) access.User {
		return access.User{Name: name, Password: hash(t, name), Publish: publish, Subscribe: subscribe}
	}
	inbox := []string{"_INBOX/#"}
	api := []string{"$JS/API/#", "$JS/ACK/#"}
	at, _ := stored(t, Config{Access: access.Config{Users: []access.User{
		user("all", append(api, "a/#"), append(inbox, "a/#")), user("half", api, append(inbox, "a/1")), user("none", []string{"a/#"}, append(inbox, "a/#")), user("reader", []string{"$JS/API/CONSUMER/#"}, append(inbox, "a/#"))}}})
	ctx := t.Context()
	_, all := streamsOf(t, at, nats.UserInfo("all", "all"))
	_, half := streamsOf(t, at, nats.UserInfo("half", "half"))
	_, none := streamsOf(t, at, nats.UserInfo("none", "none"))
	_, reader := streamsOf(t, at, nats.UserInfo("reader", "reader"))
	cfg := jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}}
	for name, js := range map[string]jetstream.JetStream{"none": none, "reader": reader, "half": half} {
		if _, err := js.CreateStream(ctx, cfg); err == nil {
			t.Errorf("%s makes the stream", name)
		}
	}
	must[jetstream.Stream](t, "stream")(all.CreateStream(ctx, cfg))
	for _, subject := range []string{"a.1", "a.2", "a.1"} {
		must[*jetstream.PubAck](t, "publish")(all.Publish(ctx, subject, []byte(subject)))
	}
	must[*jetstream.PubAck](t, "publish without the interface")(none.Publish(ctx, "a.1", nil))
	if _, err := none.Stream(ctx, "A"); err == nil {
		t.Error("the interface is there without a right")
	}
	c := must[jetstream.Consumer](t, "consumer")(half.CreateConsumer(ctx, "A", jetstream.ConsumerConfig{Durable: "c"}))
	fetching, enough := context.WithTimeout(ctx, patience)
	got := must[jetstream.MessageBatch](t, "fetch")(c.Fetch(4, jetstream.FetchContext(fetching)))
	n := 0
	for m := range got.Messages() {
		if n++; m.Subject() != "a.1" {
			t.Errorf("%s is had without a right", m.Subject())
		}
		if n == 3 { // of the fourth it has no right; another would come by then
			time.AfterFunc(50*time.Millisecond, enough)
		}
	}
	if enough(); n != 3 {
		t.Errorf("%d messages came", n)
	}
	hs := must[jetstream.Stream](t, "stream")(half.Stream(ctx, "A"))
	if _, err := hs.GetMsg(ctx, 2); err == nil {
		t.Error("a message is had by its number without a right")
	}
	must[*jetstream.RawStreamMsg](t, "message")(hs.GetMsg(ctx, 1))
	cfg.AllowDirect = true
	must[jetstream.Stream](t, "update")(all.UpdateStream(ctx, cfg))
	spoof := nats.NewMsg("a.2")
	spoof.Header = nats.Header{"Nats-Subject": {"a.1"}, "Status": {"404"}}
	ack := must[*jetstream.PubAck](t, "publish")(all.PublishMsg(ctx, spoof))
	hs = must[jetstream.Stream](t, "stream")(half.Stream(ctx, "A"))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if m, err := hs.GetMsg(short, ack.Sequence); err == nil {
		t.Errorf("a message that claims another subject is had without a right: %+v", m)
	}
	must[*jetstream.RawStreamMsg](t, "direct")(hs.GetMsg(ctx, 1))
}

// A message that looks like an answer of JetStream comes back as its publisher wrote it.
func TestStoredAnswers(t *testing.T) {
	at, _ := stored(t, Config{})
	_, js := streamsOf(t, at)
	s := must[jetstream.Stream](t, "stream")(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "A", Subjects: []string{"a"}, AllowDirect: true}))
	const body = `{"type":"io.nats.jetstream.api.v1.stream_names_response","total":1,"streams":["SPILLGATE_LOG"]}`
	must[*jetstream.PubAck](t, "publish")(js.Publish(t.Context(), "a", []byte(body)))
	if m := must[*jetstream.RawStreamMsg](t, "direct")(s.GetMsg(t.Context(), 1)); string(m.Data) != body {
		t.Errorf("it comes back as %s", m.Data)
	}
}

// Of several nodes one stores each message, and a stream that is made at one is there for clients of all.
func TestStreamOfNodes(t *testing.T) {
	nodes, _ := cluster(t, 3, Config{Listen: []string{"nats://127.0.0.1:0"}, NATS: natsLimits(16 << 20)})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []jetstream.JetStream
	for _, b := range nodes {
		at, _ := b.Addresses()
		_, js := streamsOf(t, at[1])
		all = append(all, js)
	}
	s := must[jetstream.Stream](t, "stream")(all[0].CreateStream(ctx, jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}}))
	const n = 30
	for i := range n {
		for _, js := range all {
			for {
				_, err := js.Publish(ctx, fmt.Sprint("a.", i), nil)
				if err == nil {
					break
				}
				if !errors.Is(err, jetstream.ErrNoStreamResponse) || ctx.Err() != nil { // the others have not heard of it yet
					t.Fatal(err)
				}
			}
		}
	}
	if got := must[*jetstream.StreamInfo](t, "info")(s.Info(ctx)).State.Msgs; got != 3*n {
		t.Errorf("%d messages are stored of %d", got, 3*n)
	}
	must[jetstream.Consumer](t, "consumer")(all[1].CreateConsumer(ctx, "A", jetstream.ConsumerConfig{Durable: "c"}))
	other := must[jetstream.Consumer](t, "consumer")(all[2].Consumer(ctx, "A", "c"))
	m := must[jetstream.Msg](t, "next")(other.Next(jetstream.FetchMaxWait(patience)))
	if err := m.DoubleAck(ctx); err != nil {
		t.Error(err)
	}
}

func natsLimits(bytes int) natsedge.Limits { return natsedge.Limits{StreamBytes: bytes} }

// A member of a shared subscription takes nothing from a stream, whatever the group is called.
func TestStreamHasItsOwnGroup(t *testing.T) {
	at, mqttAt := stored(t, Config{})
	ctx := t.Context()
	nc, js := streamsOf(t, at)
	s := must[jetstream.Stream](t, "stream")(js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}))
	for _, queue := range []string{"$streams", "/", "streams"} {
		if _, err := nc.QueueSubscribe("orders.>", queue, func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, mqttAt, "member")
	for _, group := range []string{"$streams", " streams"} {
		if tok := c.Subscribe("$share/"+group+"/orders/+/#", 0, nil); !tok.WaitTimeout(patience) || tok.Error() != nil {
			t.Fatal("subscribe over MQTT: ", tok.Error())
		}
	}
	for i := range 10 {
		must[*jetstream.PubAck](t, "publish")(js.Publish(ctx, fmt.Sprint("orders.", i), nil))
	}
	if n := must[*jetstream.StreamInfo](t, "info")(s.Info(ctx)).State.Msgs; n != 10 {
		t.Errorf("the stream has %d messages of 10", n)
	}
}
