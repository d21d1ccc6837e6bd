package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/mono"
)

// elsewhere stands for a backplane: it notes what it takes, and has no room if full.
type elsewhere struct {
	mu                sync.Mutex
	stored, sent, out []string
	wanted            []string
	full              bool
	room              int // for messages that are stored; 0: any number
}

func (e *elsewhere) take(to *[]string, m *Message) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.full || e.room > 0 && len(e.stored) == e.room {
		return false
	}
	*to = append(*to, m.Topic.Name()+"="+string(m.Payload))
	return true
}

func (e *elsewhere) Append(m *Message, _ uint16) bool           { return e.take(&e.stored, m) }
func (e *elsewhere) Divert(_ *Batch, m *Message, _ uint16) bool { return e.take(&e.sent, m) }
func (e *elsewhere) Forward(_ *Batch, m *Message)               { e.take(&e.out, m) }
func (e *elsewhere) Wanted(of Interest)                         { e.wanted = append(e.wanted, "+"+of.Filter) }
func (e *elsewhere) Settle(context.Context, string) error       { return nil }
func (e *elsewhere) Unwanted(of Interest)                       { e.wanted = append(e.wanted, "-"+of.Filter) }

// refusable is a client that notes what was refused after it had waited.
type refusable struct {
	client
	refused []error
}

func (c *refusable) Refused(_ *Batch, _ *Message, _ uint16, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, err)
}

// What a node saw of a topic has the delays of the last window.
func TestSeenHasDelays(t *testing.T) {
	h := testHub(t, Config{})
	h.SetShare("t", &Share{Rate: 1000, Burst: 1})
	to := topic(t, h, "t")
	b := h.NewBatch()
	b.Begin(h.now().Add(-maxStampAge))
	b.Publish(&Message{Topic: to, Expires: mono.Never}, 0)
	b.End()
	h.shares["t"].stats.turn(h.now().Add(statsWindow))
	if s, ok := h.Seen("t"); !ok || s.Processing < maxStampAge/2 || s.Access != 0 {
		t.Errorf("seen are %+v, want %v of processing and no access", s, maxStampAge)
	}
}

// Messages of QoS 1 go to the log and are acknowledged by it, those of QoS 0 to
// subscribers and to other nodes, and what the log has stored to subscribers alone.
func TestLog(t *testing.T) {
	e := &elsewhere{}
	h := testHub(t, Config{Log: e, Forward: e, Watch: e})
	var c client
	one, two := &Subscription{Who: &c, QoS: 1}, &Subscription{Who: &c, QoS: 1}
	subscribe(t, h, "a/+", one)
	subscribe(t, h, "a/+", two)
	a := topic(t, h, "a/b")
	b := h.NewBatch()
	if v := publish(b, a, "1", 1); v != Waits || c.count() != 0 {
		t.Errorf("QoS 1: %v, and %d deliveries, want it to wait for the log", v, c.count())
	}
	b.Begin(h.now())
	b.Publish(&Message{Topic: a, Payload: []byte("0"), Expires: mono.Never}, 0)
	b.Deliver(&Message{Topic: a, Payload: []byte("1"), Expires: mono.Never, QoS: 1, Position: 1})
	b.End()
	e.full = true
	if v := publish(b, a, "2", 2); v != QueueFull {
		t.Errorf("a log without room: %v, want QueueFull", v)
	}
	if !slices.Equal(e.stored, []string{"a/b=1"}) || !slices.Equal(e.out, []string{"a/b=0"}) || !slices.Equal(c.got, []string{"a/b=0", "a/b=1"}) {
		t.Errorf("stored %v, sent on %v, delivered %v", e.stored, e.out, c.got)
	}
	h.Unsubscribe(one)
	h.Unsubscribe(two)
	if !slices.Equal(e.wanted, []string{"+a/+", "-a/+"}) {
		t.Errorf("the watcher was told %v", e.wanted)
	}
}

// A message that waited for its rate and finds the log full is refused.
func TestLogFullAfterWait(t *testing.T) {
	e := &elsewhere{room: 1} // which the first takes
	h := testHub(t, Config{Log: e, Limits: []Limit{{Filter: "a", Rate: 100, Burst: 1}}})
	var from refusable
	b := h.NewBatch()
	b.Begin(h.now())
	for id := range uint16(2) {
		if v := b.Publish(&Message{Topic: topic(t, h, "a"), Expires: mono.Never, QoS: 1, From: &from}, id+1); v != Waits {
			t.Fatalf("message %d: %v", id, v)
		}
	}
	b.End()
	await(t, "the second is refused", func() bool { from.mu.Lock(); defer from.mu.Unlock(); return len(from.refused) == 1 })
	if !errors.Is(from.refused[0], errNotStored) {
		t.Error(from.refused[0])
	}
	await(t, "it counts as refused, and the first as released", func() bool {
		s := h.Stats()[0]
		return s.Released == 1 && s.Refused[QueueFull.String()] == 1
	})
}

// A share counts instead of limits, what waits follows its rate, a share of 0 sends
// messages away, and without one the limits count again.
func TestShare(t *testing.T) {
	e := &elsewhere{}
	h := testHub(t, Config{Divert: e, Limits: []Limit{{Filter: "#", Rate: 1e6, Burst: 1e6}}})
	var c client
	subscribe(t, h, "a", &Subscription{Who: &c})
	a := topic(t, h, "a")
	h.SetShare("a", &Share{Rate: 0.01, Burst: 1})
	b := h.NewBatch()
	for i := range uint16(3) {
		publish(b, a, "x", i+1)
	}
	if c.count() != 1 {
		t.Fatalf("%d messages went at a burst of 1", c.count())
	}
	if s, ok := h.Seen("a"); !ok || s.Messages != 3 || s.Waiting != 2 || s.Backlog < 2.9 || s.Backlog > 3 {
		t.Errorf("seen %+v, %v", s, ok)
	}
	if s, _ := h.Seen("a"); s.Messages != 0 || s.Backlog != 0 || s.Waiting != 2 {
		t.Errorf("seen again %+v", s)
	}
	h.SetShare("a", &Share{})
	if v := publish(b, a, "away", 4); v != Waits || len(e.sent) != 1 {
		t.Errorf("without a part of the bucket: %v, %v were sent away", v, e.sent)
	}
	e.full = true
	if v := publish(b, a, "away", 5); v != QueueFull {
		t.Errorf("nowhere to send it: %v", v)
	}
	if c.count() != 1 {
		t.Errorf("%d messages went here", c.count())
	}
	h.SetShare("a", &Share{Rate: 1000, Burst: 1})
	await(t, "what waited goes at the new rate", func() bool { return c.count() == 3 })
	stats := h.Stats()
	if s := stats[1]; len(stats) != 3 || s.Limit.Filter != "a" || s.Limit.Rate != 1000 || s.Topics != 1 {
		t.Errorf("statistics %+v", stats)
	}
	h.SetShare("a", nil)
	for i := range uint16(100) {
		publish(b, a, "y", 10+i)
	}
	if c.count() != 103 {
		t.Errorf("%d messages went by the limit, want all 103", c.count())
	}
	if _, ok := h.Seen("a"); ok {
		t.Error("a share that is gone is seen")
	}
}

// A share refuses, and lets as many wait, as the limit that matches its topic says.
func TestShareOfALimit(t *testing.T) {
	hard := Limit{Filter: "#", Rate: 1e6, Burst: 1e6, Police: true}
	h := testHub(t, Config{Limits: []Limit{hard}})
	a := topic(t, h, "a")
	h.SetShare("a", &Share{Rate: 0.001, Burst: 1})
	b := h.NewBatch()
	for i, want := range []Verdict{Went, OverRate} {
		if v := publish(b, a, "x", 1); v != want {
			t.Errorf("message %d: %v, want %v", i, v, want)
		}
	}
	soft := hard
	soft.Police, soft.Queue = false, 1
	h.SetLimits([]Limit{soft})
	for i, want := range []Verdict{Waits, QueueFull} {
		if v := publish(b, a, "x", 1); v != want {
			t.Errorf("message %d of another limit: %v, want %v", i, v, want)
		}
	}
}

// Whoever has found a topic's lane before the bucket went elsewhere takes no token of it afterwards.
func TestShareGoesMeanwhile(t *testing.T) {
	e := &elsewhere{}
	h := testHub(t, Config{Divert: e})
	a := topic(t, h, "a")
	h.SetShare("a", &Share{Rate: 1, Burst: 10})
	l := a.lane.Load()
	h.SetShare("a", &Share{})
	b := h.NewBatch()
	b.Begin(h.now())
	l.publish(b, &Message{Topic: a, Payload: []byte("x"), Expires: mono.Never}, 0)
	b.End()
	if len(e.sent) != 1 {
		t.Errorf("%d messages were sent to where the bucket is", len(e.sent))
	}
}
