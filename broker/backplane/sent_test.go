package backplane

import (
	"log/slog"
	"testing"
)

// How often a message was sent is known to all nodes, as the last of them says.
func TestSentIsTold(t *testing.T) {
	here := open(t, New(Config{Node: "n1", Data: t.TempDir(), Listen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler)))
	there := open(t, New(Config{Node: "n2", URL: here.ClientURL()}, slog.New(slog.DiscardHandler)))
	for _, p := range []*Plane{here, there} { // what comes before the server knows that they listen they do not hear
		if err := p.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	at := drawnAt{"c", 7}
	here.tellSent(at, -2)
	if got := here.groups.sends.of(at); got != -2 {
		t.Errorf("the node that says -2 remembers %d", got)
	}
	await(t, "the other node to know", func() bool { return there.groups.sends.of(at) == -2 })
	there.tellSent(at, 3)
	await(t, "the first node to know", func() bool { return here.groups.sends.of(at) == 3 })
	if err := there.jc.Publish(sentSubjects+"c", []byte{0xff}); err != nil {
		t.Fatal(err)
	}
	await(t, "nonsense to be counted", func() bool { return here.Stats().Malformed == 1 })
}

// A node remembers so many, and forgets the earliest.
func TestSendsAreBounded(t *testing.T) {
	var s sends
	for i := range uint64(2*maxSends + 1) {
		if s.set(drawnAt{"c", i}, 0) {
			t.Fatal("a message that was sent as often as it was drawn is remembered")
		}
		if !s.set(drawnAt{"c", i}, 1) || s.set(drawnAt{"c", i}, 1) {
			t.Fatal("what is new is known, or what is known is new")
		}
	}
	if n := len(s.more); n != maxSends || s.of(drawnAt{"c", maxSends}) != 0 || s.of(drawnAt{"c", maxSends + 1}) != 1 {
		t.Errorf("%d are remembered, want the last %d", n, maxSends)
	}
}
