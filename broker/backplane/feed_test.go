package backplane

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
)

// The subjects of a feed have every topic that a filter covers, each once, and are few, however many filters there are. Few filters without
// wildcards in between have nothing else.
func TestSubjectsForFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	level := func(wild bool) string {
		words := []string{"a", "b", "c", "", "x.y", "$d", "é"}
		if wild {
			words = append(words, "+")
		}
		return words[rng.IntN(len(words))]
	}
	levels := func(wild bool) string {
		var all []string
		for range 1 + rng.IntN(4) {
			all = append(all, level(wild))
		}
		if wild && rng.IntN(4) == 0 {
			all = append(all, "#")
		}
		return strings.Join(all, "/")
	}
	for range 300 {
		var filters []string
		for range rng.IntN([]int{3, 20, 300}[rng.IntN(3)]) {
			if f := levels(true); f != "" {
				filters = append(filters, f)
			}
		}
		subjects := subjectsFor(filters)
		if len(subjects) > maxSubjects {
			t.Fatalf("%d subjects for %q", len(subjects), filters)
		}
		for range 200 {
			topic := levels(false)
			times := 0
			for _, s := range subjects {
				if covered([]string{s}, subjectOf(logSubjects, topic)) {
					times++
				}
			}
			wanted := slices.ContainsFunc(filters, func(f string) bool { return engine.Matches(f, topic) })
			if times > 1 || wanted && times != 1 {
				t.Fatalf("topic %q is %d times in %v, for %q", topic, times, subjects, filters)
			}
		}
	}
	want := []string{"spillgate.log.mark", "spillgate.log.n._INBOX", "spillgate.log.n._INBOX.>", "spillgate.log.n.a.b", "spillgate.log.n.c", "spillgate.log.n.c.>", "spillgate.log.s.%24d.e"}
	if got := subjectsFor([]string{"a/b", "c/#", "c/d", "$d/e"}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("subjects are %v, want %v", got, want)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("devices/%d/commands", i))
	}
	if got := subjectsFor(append(many, "a/b")); !slices.Contains(got, "spillgate.log.n.devices.>") || !slices.Contains(got, "spillgate.log.n.a.b") {
		t.Errorf("for a thousand devices they are %v", got)
	}
}

// A node comes to the end of a log that is full, although nobody there wants what it has and no mark finds room: so the log can be cut.
func TestFeedOfAFullLog(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir(), MaxBytes: 1 << 20}, slog.New(slog.DiscardHandler))
	p.alone, p.feed.every = false, 50*time.Millisecond // as if there were other nodes
	open(t, p)
	end := uint64(0)
	var err error
	for size := 100_000; size > 0; size /= 10 { // until there is no room for a mark either
		for {
			m := nats.NewMsg(logSubjects + "n.unwanted")
			m.Data = make([]byte, size)
			ack, wrong := p.js.PublishMsg(t.Context(), m)
			if wrong != nil {
				err = wrong
				break
			}
			end = ack.Sequence
		}
	}
	if !full(err) {
		t.Fatalf("it is not full: %v", err)
	}
	p.feed.appended.Store(true)
	await(t, "the end of the log", func() bool { return p.Position() == end })
	await(t, "the feed to have no more than it needs again", func() bool {
		p.feed.mu.Lock()
		defer p.feed.mu.Unlock()
		return slices.Equal(p.feed.covers, subjectsFor(nil))
	})
}
