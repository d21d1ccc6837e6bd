package backplane

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/harness/freeport"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// joined returns two nodes whose servers are joined.
func joined(t testing.TB) (planes [2]*Plane) {
	t.Helper()
	var routes []string
	for range planes {
		l, err := freeport.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // and not before both are chosen
		routes = append(routes, l.Addr().String())
	}
	for i := range planes {
		planes[i] = New(Config{Node: fmt.Sprint("n", i+1), Data: t.TempDir(), Cluster: routes[i], Routes: routes}, slog.New(slog.DiscardHandler))
	}
	return planes
}

// opens opens nodes that wait for each other.
func opens(t testing.TB, planes [2]*Plane) {
	t.Helper()
	var opening sync.WaitGroup
	for _, p := range planes {
		hub := engine.New(engine.Config{Forward: p, Watch: p, Shared: true})
		t.Cleanup(hub.Close)
		t.Cleanup(p.Close)
		opening.Go(func() {
			if err := p.Open(t.Context(), hub); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// A message of QoS 0 is sent on where a filter of another node covers its topic, or a shared subscription of any node, and nowhere else.
func TestSentWhereItIsWanted(t *testing.T) {
	planes := joined(t)
	opens(t, planes)
	here, there := planes[0], planes[1]
	of := func(name string) *engine.Topic {
		topic, err := here.hub.Topic([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		return topic
	}
	await(t, "the other node is met", func() bool { return here.others.Load() != nil && len(*here.others.Load()) == 1 })
	rng := rand.New(rand.NewPCG(5, 6))
	levels := []string{"a", "b", "", "x.y", "$"}
	some := func(wild bool) string {
		var all []string
		for range 1 + rng.IntN(3) {
			all = append(all, levels[rng.IntN(len(levels))])
			if wild && rng.IntN(3) == 0 {
				all[len(all)-1] = "+"
			}
		}
		if wild && rng.IntN(3) == 0 {
			all = append(all, "#")
		}
		return strings.Join(all, "/")
	}
	subscribe := func(p *Plane, filter, group string) (end func()) {
		s := &engine.Subscription{Who: &subscriber{}, Group: group}
		if err := p.hub.Subscribe(filter, s); err != nil {
			t.Fatal(err)
		}
		return func() { p.hub.Unsubscribe(s) }
	}
	for round := range 20 {
		var ends []func()
		var filters, groups []string
		for range 1 + rng.IntN(3) {
			if f := some(true); engine.CheckFilter(f) == nil {
				ends, filters = append(ends, subscribe(there, f, []string{"", "g"}[rng.IntN(2)])), append(filters, f)
			}
			if f := some(true); engine.CheckFilter(f) == nil {
				ends = append(ends, subscribe(here, f, ""))
			}
		}
		if f := some(true); round%2 == 0 && engine.CheckFilter(f) == nil {
			ends, groups = append(ends, subscribe(here, f, "g")), append(groups, f)
		}
		var topics []*engine.Topic
		for len(topics) < 50 {
			if topic := some(false); engine.CheckTopic(topic) == nil {
				topics = append(topics, of(topic))
			}
		}
		await(t, fmt.Sprintf("topics are sent on by filters %q there and groups of %q here", filters, groups), func() bool { // as soon as they are known
			return !slices.ContainsFunc(topics, func(topic *engine.Topic) bool {
				covers := func(f string) bool { return engine.Matches(f, topic.Name()) }
				return here.wantedElsewhere(topic) != (slices.ContainsFunc(filters, covers) || slices.ContainsFunc(groups, covers))
			})
		})
		for _, end := range ends {
			end()
		}
	}
	defer subscribe(here, "own", "")()
	await(t, "nobody else wants it", func() bool { return !here.wantedElsewhere(of("own")) })
	here.Forward(nil, &engine.Message{Topic: of("own"), Payload: []byte("x"), Expires: mono.Never})
	if n := here.Stats().Sending; n != 0 {
		t.Errorf("%d messages that nobody else wants wait to be sent on", n)
	}
	asked := &wantsToKnow{}
	if here.Forward(nil, &engine.Message{Topic: of("own"), Expires: mono.Never, From: asked}); asked.told != 1 {
		t.Errorf("who asked for an answer is told %d times that nobody elsewhere gets the message", asked.told)
	}
	// A node that is joined to no server here, and whose clock, or that of the server that stores what it tells, is far behind.
	nc, err := here.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, subject := range []string{wantsSubjects + "far", wantsSubjects + "far.n.own"} {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	here.told.mu.Lock()
	here.told.all["far"] = toldBy{at: time.Now().Add(-time.Hour)}
	here.told.mu.Unlock()
	await(t, "it is sent on to that one", func() bool { return here.wantedElsewhere(of("own")) })
	if here.others.Load() == nil {
		t.Error("it is sent on since all is")
	}
	if _, err := here.nodes.Put(t.Context(), "old", []byte("0")); err != nil { // a version that marks nothing
		t.Fatal(err)
	}
	await(t, "all is sent", func() bool { return here.wantedElsewhere(of("own")) })
}

// wantsToKnow counts how often it is told that nobody gets its message.
type wantsToKnow struct {
	publisher
	told int
}

func (w *wantsToKnow) Unheard() { w.told++ }

// BenchmarkForward is what a message of QoS 0 with a subscriber at its own node alone takes of the processors at that node and another one, where it
// is sent on and where it is not.
func BenchmarkForward(b *testing.B) {
	planes := joined(b)
	opens(b, planes)
	here := planes[0]
	if err := here.hub.Subscribe("a/#", &engine.Subscription{Who: &counter{}}); err != nil {
		b.Fatal(err)
	}
	topic, err := here.hub.Topic([]byte("a/b/c"))
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 100)
	for here.others.Load() == nil {
		here.sleep(meetEvery)
	}
	met := here.others.Load()
	used := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
		return u.Utime.Nano() + u.Stime.Nano()
	}
	batch := here.hub.NewBatch()
	const n = 100
	for range 3 { // beside each other, since the machine may be busy
		for _, what := range []string{"nothing", "sent", "kept"} {
			b.Run(what, func(b *testing.B) {
				before := used()
				for b.Loop() {
					for range n {
						time.Sleep(100 * time.Microsecond) // as far apart as they come at a node with little to do
						if what == "nothing" {
							continue
						}
						if here.others.Store(met); what == "sent" {
							here.others.Store(nil)
						}
						batch.Begin(live.Now())
						batch.Publish(&engine.Message{Topic: topic, Payload: payload, Expires: mono.Never}, 0)
						batch.End()
					}
				}
				b.ReportMetric(float64(used()-before)/float64(n*b.N), "cpu-ns/message")
			})
		}
	}
}
