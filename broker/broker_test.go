package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/telemetry"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// patience only ends a test that hangs.
const patience = time.Minute

// testWindow is that of the shares of buckets.
var testWindow time.Duration

// run runs a broker until stop is called, which returns what Run did. It listens for
// clients of MQTT, and at what else cfg names.
func run(t *testing.T, cfg Config) (b *Broker, addr, admin string, stop func() error) {
	t.Helper()
	cfg.Listen, cfg.Admin = append([]string{"127.0.0.1:0"}, cfg.Listen...), "127.0.0.1:0"
	b, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.window = testWindow
	if err := b.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	var once atomic.Bool
	stop = func() error {
		cancel()
		if once.Swap(true) {
			return nil
		}
		return <-done
	}
	t.Cleanup(func() { _ = stop(); http.DefaultClient.CloseIdleConnections() })
	addresses, admin := b.Addresses()
	return b, addresses[0], admin, stop
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func client(t *testing.T, addr, id string) mqtt.Client {
	t.Helper()
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(id).SetAutoReconnect(false))
	if tok := c.Connect(); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal("connect: ", tok.Error())
	}
	t.Cleanup(func() { c.Disconnect(50) })
	return c
}

// Limits change while the broker runs, metrics and status tell of what waits, and
// what waits goes before clients are disconnected.
func TestRun(t *testing.T) {
	limits := []engine.Limit{{Filter: "slow", Rate: 0.001, Burst: 1}, {Filter: "hard/#", Rate: 0.001, Burst: 1, Police: true, Shared: true}}
	b, addr, admin, stop := run(t, Config{Limits: limits})
	await(t, "readiness", func() bool {
		code, body := get(t, "http://"+admin+telemetry.PathReady)
		return code == http.StatusOK && body == "serving\n"
	})
	got, ended := reader(t, addr)
	pub := client(t, addr, "pub")
	for _, topic := range []string{"slow", "slow", "slow", "hard/1", "hard/2", "free"} {
		pub.Publish(topic, 0, false, "x")
	}
	await(t, "three messages", func() bool { return got.Load() == 3 })
	var s Status
	// A message is counted after it was delivered or refused.
	await(t, "what waits, is refused and went", func() bool {
		s = b.Status()
		return s.Limits[0].Backlog == 2 && s.Refused == 1 && s.Limits[1].Refused["over_rate"] >= 1 && s.Limits[2].Released >= 1
	})
	if s.Connections != 2 || s.Topics != 4 || s.Limits[1].Refused["over_rate"] != 1 || s.Limits[2].Released != 1 || s.Limits[2].Filter != "none" {
		t.Errorf("the status is %+v", s)
	}
	_, page := get(t, "http://"+admin+telemetry.PathStatus)
	var again Status
	if err := json.Unmarshal([]byte(page), &again); err != nil || again.Limits[0].Backlog != 2 {
		t.Errorf("the status page: %v, %+v", err, again)
	}
	measures(t, admin, `spillgate_broker_backlog{limit="slow"} 2`, `spillgate_broker_messages_total{limit="hard/#",result="over_rate"} 1`,
		`spillgate_broker_messages_total{limit="none",result="released"} 1`, `spillgate_broker_connections{protocol="mqtt"} 2`, `spillgate_broker_processing_seconds{limit="slow",quantile="0.99"}`)

	changed := slices.Clone(limits)
	changed[0].Rate = 10
	ignored, err := b.Reload(Config{Limits: changed, Topics: 5})
	if err != nil || fmt.Sprint(ignored) != "[listen admin topics]" {
		t.Errorf("Reload: %v, %v", ignored, err)
	}
	await(t, "what waited, at the new rate", func() bool { return got.Load() == 5 })
	if _, err := b.Reload(Config{Limits: []engine.Limit{{Filter: "a", Rate: -1, Burst: 0.5}}}); err == nil || !strings.Contains(err.Error(), "limits[0].rate") || !strings.Contains(err.Error(), "limits[0].burst") {
		t.Errorf("Reload of mistakes: %v", err)
	}
	slow := uint64(3)
	for waits := false; !waits; { // where the machine is slower than the limit, more are published
		for range 4 {
			pub.Publish("slow", 0, false, "y")
			slow++
		}
		await(t, "what was published", func() bool {
			l := b.Status().Limits[0]
			waits = l.Backlog > 0
			return l.Released+uint64(l.Backlog) == slow
		})
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if <-ended; uint64(got.Load()) != slow+2 {
		t.Errorf("%d messages came until the end, want %d", got.Load(), slow+2)
	}
}

// measures checks that the metrics have some lines.
func measures(t *testing.T, admin string, lines ...string) {
	t.Helper()
	_, metrics := get(t, "http://"+admin+telemetry.PathMetrics)
	for _, line := range lines {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// reader subscribes to all topics and counts the messages until the connection ends. It
// reads them all, where a client library may forget some when its connection is closed.
func reader(t *testing.T, addr string) (got *atomic.Int32, ended chan struct{}) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	connect := "\x10\x0f\x00\x04MQTT\x04\x02\x00\x00\x00\x03sub"
	subscribe := "\x82\x06\x00\x01\x00\x01#\x00"
	if _, err := io.WriteString(c, connect+subscribe); err != nil {
		t.Fatal(err)
	}
	got, ended = &atomic.Int32{}, make(chan struct{})
	subscribed := make(chan struct{})
	go func() {
		defer close(ended)
		var head [2]byte // packets of this test are shorter than 128 bytes
		for {
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(head[1])); err != nil {
				return
			}
			switch head[0] >> 4 {
			case 3:
				got.Add(1)
			case 9:
				close(subscribed)
			}
		}
	}()
	select {
	case <-subscribed:
	case <-ended:
		t.Fatal("the connection ended before SUBACK")
	case <-time.After(patience):
		t.Fatalf("no SUBACK within %v", patience)
	}
	return got, ended
}

// A lookup tells where consumers of NSQ connect, whichever listener is first.
func TestLookup(t *testing.T) {
	b, _, _, _ := run(t, Config{Listen: []string{"nsqlookup://127.0.0.1:0", "nsq://127.0.0.1:0"}})
	addresses, _ := b.Addresses()
	_, port, _ := net.SplitHostPort(addresses[2])
	await(t, "the answer", func() bool {
		code, body := get(t, "http://"+addresses[1]+"/lookup?topic=a")
		return code == http.StatusOK && strings.Contains(body, `"tcp_port":`+port+",")
	})
	alone := Config{Listen: []string{"nsqlookup://127.0.0.1:4161"}}.Check()
	if len(alone) != 1 || alone[0].Field != "listen[0]" {
		t.Errorf("a lookup without NSQ: %v, want one mistake, in listen[0]", alone)
	}
}

func TestCheck(t *testing.T) {
	bad := Config{Listen: []string{"nowhere", ":1", ":1"}, Admin: "x", Topics: -1, Memory: 1, Drain: Drain{Notice: -1},
		Limits: []engine.Limit{{Filter: "a/#/b", Rate: 0, Burst: 0.9, Queue: -1}, {Filter: "a", Rate: 1, Burst: 1}, {Filter: "a", Rate: 1, Burst: 1}}}
	bad.Clients.Packet, bad.Clients.Inflight = 1<<30, 1<<20
	var fields []string
	for _, m := range bad.Check() {
		fields = append(fields, m.Field)
	}
	want := "listen[0] listen[2] listen[1] listen[2] admin limits[0].filter limits[0].rate limits[0].burst limits[0].queue limits[2].filter clients.packet clients.inflight clients.outbound topics memory drain.notice"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("mistakes in %s, want %s", got, want)
	}
	// Others connect to it: a place does not have all addresses of its machine.
	placed := Config{Cluster: backplane.Config{Node: "n1", Data: "d"}, Place: Place{Address: ":1883", Capacity: 1}}.Check()
	if len(placed) != 1 || placed[0].Field != "place.address" {
		t.Errorf("a place without a host: %v, want one mistake, in place.address", placed)
	}
	if all := (Config{}).Check(); len(all) > 0 {
		t.Errorf("nothing configured: %v", all)
	}
	if _, err := New(bad, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("New takes it")
	}
}
