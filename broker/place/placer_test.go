package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(placerOrder); order != "" { // see TestPlacersAsProcesses
		if err := runPlacer(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Verify(m)
}

// two returns two placers that share a state, each with a connection of its own.
func two(t *testing.T) (a, b *Placer) {
	t.Helper()
	url, stop, err := Embed("127.0.0.1:0", t.TempDir())
	must(t, err)
	t.Cleanup(stop)
	placers := make([]*Placer, 2)
	for i := range placers {
		p, end, err := Dial(t.Context(), url)
		must(t, err)
		t.Cleanup(end)
		placers[i] = p
	}
	return placers[0], placers[1]
}

// Two placers decide at once on a topic each, and only one of these has room: neither node is given away twice, and no change is lost.
func TestTwoPlacers(t *testing.T) {
	a, b := two(t)
	_, err := a.Update(t.Context(), func(s *State) error {
		return errors.Join(s.SetNode("n1", Node{Address: "h1:1", Capacity: 1000}), s.SetNode("n2", Node{Address: "h2:1", Capacity: 1000}),
			s.SetTopic("t0", limits(500)), s.SetTopic("t1", limits(500)))
	})
	must(t, err)
	var all sync.WaitGroup
	for i, p := range []*Placer{a, b} {
		for k := range 20 {
			all.Go(func() {
				_, err := p.Update(t.Context(), func(s *State) error {
					return s.Join(fmt.Sprint("t", i), Join{Publisher: fmt.Sprintf("p%d", k), Rate: 25})
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	s, revision, err := b.Load(t.Context())
	must(t, err)
	sound(t, s)
	if len(s.Topics["t0"].Publishers) != 20 || len(s.Topics["t1"].Publishers) != 20 || revision < 41 {
		t.Errorf("%d and %d publishers at revision %d: changes were lost", len(s.Topics["t0"].Publishers), len(s.Topics["t1"].Publishers), revision)
	}
}

// blind is a JetStream through which no stream is read.
type blind struct{ jetstream.JetStream }

func (blind) CreateConsumer(ctx context.Context, _ string, _ jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Whoever cannot read the stream, since the server that it reads from has died, is told what is written by who writes it.
func TestTold(t *testing.T) {
	a, b := two(t)
	b.js = blind{b.js}
	ctx, cancel := context.WithCancel(t.Context())
	states := make(chan *State, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { b.Watch(ctx, states, slog.New(slog.DiscardHandler)) })
	for i := 0; ; i++ {
		_, err := a.Update(t.Context(), func(s *State) error { return s.SetNode("n", Node{Address: "h:1", Capacity: float64(1 + i)}) })
		must(t, err)
		select {
		case s := <-states:
			if s.Nodes["n"].Capacity < 1 {
				t.Errorf("the state is %+v", s)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
		if i == 1000 {
			t.Fatal("nothing is told")
		}
	}
}

// A change that another placer overtakes more than a hundred times is made in the end.
func TestOvertaken(t *testing.T) {
	a, b := two(t)
	node := func(name string) func(*State) error {
		return func(s *State) error { return s.SetNode(name, Node{Address: "h:1", Capacity: 1000}) }
	}
	overtaken := 0
	const times = 120
	s, err := a.Update(t.Context(), func(s *State) error {
		if overtaken++; overtaken <= times {
			if _, err := b.Update(t.Context(), node(fmt.Sprint("b", overtaken))); err != nil {
				return err
			}
		}
		return node("a")(s)
	})
	must(t, err)
	if len(s.Nodes) != times+1 {
		t.Errorf("%d nodes, want %d: changes were lost", len(s.Nodes), times+1)
	}
}

// deaf is a bucket of keys whose first change is made, and answered by nobody.
type deaf struct {
	jetstream.KeyValue
	heard bool
	then  func() // after that change, if not nil
}

func (d *deaf) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	at, err := d.KeyValue.Update(ctx, key, value, revision)
	if !d.heard {
		d.heard = true
		if d.then != nil {
			d.then()
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return at, err
}

// A change that is written, and answered by nobody, is made once.
func TestUnanswered(t *testing.T) {
	p, _ := two(t)
	set := func(s *State) error { return s.SetNode("n", Node{Address: "h:1", Capacity: 1000}) }
	if _, err := p.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	p.kv = &deaf{KeyValue: p.kv}
	changed := 0
	if _, err := p.Update(t.Context(), func(s *State) error { changed++; return s.Drain("n", true) }); err != nil || changed != 1 {
		t.Errorf("%v after %d changes, expected one", err, changed)
	}
	if s, revision, err := p.Load(t.Context()); err != nil || revision != 2 || !s.Nodes["n"].Draining {
		t.Errorf("revision %d, %+v, %v", revision, s.Nodes, err)
	}
}

// Also where another placer has changed the state before it was asked again: what moves publishers from a node would move others as well.
func TestUnansweredAndOvertaken(t *testing.T) {
	p, other := two(t)
	node := func(name string) func(*State) error {
		return func(s *State) error { return s.SetNode(name, Node{Address: "h:1", Capacity: 1000}) }
	}
	if _, err := p.Update(t.Context(), node("n")); err != nil {
		t.Fatal(err)
	}
	p.kv = &deaf{KeyValue: p.kv, then: func() {
		if _, err := other.Update(t.Context(), node("m")); err != nil {
			t.Error(err)
		}
	}}
	changed := 0
	if _, err := p.Update(t.Context(), func(s *State) error { changed++; return s.Drain("n", true) }); err != nil || changed != 1 {
		t.Errorf("%v after %d changes, expected one", err, changed)
	}
	if s, revision, err := p.Load(t.Context()); err != nil || revision != 3 || !s.Nodes["n"].Draining || len(s.Nodes) != 2 {
		t.Errorf("revision %d, %+v, %v", revision, s.Nodes, err)
	}
}

func TestRefusedChangeWritesNothing(t *testing.T) {
	a, b := two(t)
	_, err := a.Update(t.Context(), func(s *State) error { return s.SetTopic("t", limits(1)) })
	var wrong *Mistake
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "add a node") {
		t.Errorf("%v", err)
	}
	if _, err := a.Try(t.Context(), func(s *State) error { return s.SetNode("n", Node{Address: "a:1", Capacity: 1}) }); err != nil {
		t.Error(err)
	}
	if s, revision, err := b.Load(t.Context()); err != nil || revision != 0 || len(s.Nodes) != 0 {
		t.Errorf("%+v at %d, %v", s, revision, err)
	}
}

// A thousand publishers ask at once: each gets a place, in few changes.
func TestThousandAsk(t *testing.T) {
	a, b := two(t)
	_, err := a.Update(t.Context(), func(s *State) error {
		return errors.Join(s.SetNode("n1", Node{Address: "h1:1883", Capacity: 60_000}), s.SetTopic("t", limits(10_000)))
	})
	must(t, err)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			p := a
			if i%2 == 0 {
				p = b
			}
			at, err := p.Place(t.Context(), "t", Join{Publisher: fmt.Sprint(i), Group: fmt.Sprint(i / 25)})
			if err != nil || at.Address != "h1:1883" {
				t.Errorf("%d: %+v, %v", i, at, err)
			}
		})
	}
	all.Wait()
	s, revision, err := a.Load(t.Context())
	must(t, err)
	sound(t, s)
	if len(s.Topics["t"].Publishers) != 1000 || revision > 300 {
		t.Errorf("%d publishers in %d changes", len(s.Topics["t"].Publishers), revision)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Place(ctx, "t", Join{Publisher: "late"}); err == nil {
		t.Error("a place for somebody who has gone")
	}
}

// A publisher that has its place is told it although another one that asks at the same time can be given none, and where a topic has as
// many as it may.
func TestKnownIsTold(t *testing.T) {
	a, _ := two(t)
	_, err := a.Update(t.Context(), func(s *State) error {
		return errors.Join(s.SetNode("n1", Node{Address: "h1:1883", Capacity: 60_000}), s.SetTopic("t", limits(10_000)), s.Join("t", Join{Publisher: "known"}))
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	b := &batch{joins: map[string]Join{"known": {Publisher: "known"}, "new": {Publisher: "new"}}, done: make(chan struct{})}
	a.mu.Lock()
	a.joining["t"] = b
	a.mu.Unlock()
	overtaken := b.change("t")
	_, err = a.update(ctx, func(s *State) error { // another one is always faster, until patience ends
		defer cancel()
		return overtaken(s)
	})
	if b.err = err; err == nil {
		t.Fatal("it was written")
	}
	close(b.done)
	if at, err := a.Place(t.Context(), "t", Join{Publisher: "known"}); err != nil || at.Address != "h1:1883" {
		t.Errorf("%+v, %v", at, err)
	}
	if at, err := a.Place(t.Context(), "t", Join{Publisher: "new"}); err == nil {
		t.Errorf("%+v, although nothing is written", at)
	}
	s, _, err := a.Load(t.Context())
	must(t, err)
	for i := len(s.Topics["t"].Publishers); i < maxPublishers; i++ {
		s.Topics["t"].Publishers[fmt.Sprint(i)] = Publisher{}
	}
	if err := b.change("t")(s); err != nil && !errors.Is(err, errNothingNew) || b.wrong["known"] != nil || b.wrong["new"] == nil {
		t.Errorf("of a full topic: %v, %v", err, b.wrong)
	}
}

func TestHTTP(t *testing.T) {
	a, _ := two(t)
	srv := httptest.NewServer(a.Handler())
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	ask := func(method, path, body string, status int, want ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		must(t, err)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		must(t, err)
		kind := "application/json"
		if status >= 400 {
			kind = "application/problem+json"
		}
		if res.StatusCode != status || res.Header.Get("Content-Type") != kind || !json.Valid(data) {
			t.Fatalf("%s %s: %d %s, expected %d %s\n%s", method, path, res.StatusCode, res.Header.Get("Content-Type"), status, kind, data)
		}
		for _, w := range want {
			if !strings.Contains(string(data), w) {
				t.Errorf("%s %s: %q is missing in\n%s", method, path, w, data)
			}
		}
	}
	topic := `{"rate": 110, "burst": 26, "objective_seconds": 0.01, "publisher_rate": 10}`
	ask("GET", "/healthz", "", 200, `"revision": 0`)
	ask("PUT", "/v1/topics/t", topic, 400, "the capacity of all nodes", `"field": "rate"`)
	ask("PUT", "/v1/nodes/n1", `{"address": "h1:1883", "capacity": 100}`, 200, "[]")
	ask("PUT", "/v1/nodes/n2", `{"address": "h2:1883", "capacity": 100}`, 200)
	ask("PUT", "/v1/nodes/n3", `{"adress": "h3"}`, 400, "unknown field")
	ask("PUT", "/v1/nodes/n3", `{"address": "h3", "capacity": 0}`, 400, "capacity is 0, expected above 0")
	ask("PUT", "/v1/nodes/n3", `{"address": "h3", "capacity": 100}`, 400, "host:port")
	ask("PUT", "/v1/nodes/n%203", `{"address": "h3:1883", "capacity": 100}`, 400, "without spaces")
	ask("PUT", "/v1/nodes/n3", `{"address": "h3:1883", "capacity": "100"}`, 400, "such as", "address")
	ask("PUT", "/v1/nodes/n3", `{"address": "h3:1883", "capacity": 100}{}`, 400, "more than one")
	ask("POST", "/v1/nodes/n1/drain?dryrun", "", 400, "dryrun", "one of dry-run, off")
	ask("GET", "/v1/place?topic=t&topic=u&publisher=p", "", 400, "each once")
	ask("GET", "/v1/place?topic=t;publisher=p", "", 400, "query is")
	ask("GET", "/v2/place", "", 404, "such path")
	ask("GET", "//v2//place", "", 404, "such path")
	ask("POST", "/v1/place", "", 405, "expected GET")
	ask("PUT", "/v1/topics/t?dry-run", topic, 200)
	ask("GET", "/v1/topics/t", "", 404, `topic \"t\" is not known`)
	ask("PUT", "/v1/topics/t", topic, 200, "no publishers yet")
	ask("GET", "/v1/place?topic=t&publisher=p1&group=g", "", 200, `"address": "h1:1883"`)
	ask("GET", "/v1/place?topic=t&publisher=p1&group=g", "", 200, `"address": "h1:1883"`)
	ask("GET", "/v1/place?topic=t&publisher=", "", 400, "publisher is")
	ask("GET", "/v1/place?publisher=p", "", 400, "topic is")
	ask("GET", "/v1/place?topic=t&publisher=p&rate=NaN", "", 400, "rate is NaN")
	ask("GET", "/v1/place?topic=t&publisher=p&objective=-5ms", "", 400, "objective is -5ms")
	ask("GET", "/v1/place?topic=t&publisher=p&objective=2h", "", 400, "objective is 7200")
	ask("GET", "/v1/place?topic=u&publisher=p", "", 404)
	ask("POST", "/v1/nodes/n1/drain?dry-run", "", 200, `"to": "n2"`)
	ask("GET", "/v1/nodes", "", 200, `"load": 10`)
	ask("POST", "/v1/nodes/n1/drain", "", 200, `"to": "n2"`)
	ask("GET", "/v1/place?topic=t&publisher=p1&group=g", "", 200, `"address": "h2:1883"`)
	ask("GET", "/v1/place?topic=t&publisher=large&rate=95", "", 507, "no node has room")
	ask("POST", "/v1/nodes/n1/drain?off", "", 200)
	ask("GET", "/v1/topics", "", 200, `"topic": "t"`)
	ask("GET", "/v1/moves", "", 200, `"publisher": "p1"`, `"at": "2`)
	ask("DELETE", "/v1/topics/t/publishers/p1", "", 200)
	ask("DELETE", "/v1/topics/t", "", 200)
	ask("DELETE", "/v1/nodes/n2", "", 400, "drain it first")
	ask("DELETE", "/v1/nodes/n9", "", 404)
}

func TestEmbedSaysWhatIsWrong(t *testing.T) {
	if _, _, err := Embed("nowhere", t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected host:port") {
		t.Error(err)
	}
	if _, _, err := Embed("127.0.0.1:x", t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected 0 to 65535") {
		t.Error(err)
	}
	url, stop, err := Embed("127.0.0.1:0", t.TempDir())
	must(t, err)
	if _, _, err := Embed(strings.TrimPrefix(url, "nats://"), t.TempDir()); err == nil || !strings.Contains(err.Error(), "--nats") {
		t.Error(err)
	}
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, _, err := Dial(ctx, url); err == nil || !strings.Contains(err.Error(), "place serve") {
		t.Error(err)
	}
}

// What was written is there after a restart.
func TestStateSurvives(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		url, stop, err := Embed("127.0.0.1:0", dir)
		must(t, err)
		p, end, err := Dial(t.Context(), url)
		must(t, err)
		if i == 0 {
			_, err = p.Update(t.Context(), func(s *State) error { return s.SetNode("n", Node{Address: "a:1", Capacity: 1}) })
			must(t, err)
		} else if s, _, err := p.Load(t.Context()); err != nil || s.Nodes["n"].Address != "a:1" {
			t.Errorf("%+v, %v", s, err)
		}
		end()
		stop()
	}
}
