package backplane

import (
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

// teller notes what becomes of a message.
type teller struct{ stored, refused atomic.Int32 }

func (s *teller) Released(*engine.Batch, *engine.Message, uint16)                 { s.stored.Add(1) }
func (s *teller) Refused(_ *engine.Batch, _ *engine.Message, _ uint16, err error) { s.refused.Add(1) }

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what, ": not within a minute")
		}
	}
}

// A single node whose log does not answer refuses what is to be stored, and stores again by
// itself: JetStream begins anew, with what it had.
func TestStoresAgain(t *testing.T) {
	var full atomic.Bool
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.room = func(dir string, bytes int) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return room(dir, bytes)
	}
	open(t, p)
	topic, err := p.hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	var from teller
	publish := func() {
		if !p.Append(&engine.Message{Topic: topic, Payload: []byte("x"), QoS: 1, Expires: mono.Never, From: &from}, 1) {
			t.Fatal("the queue is full")
		}
	}
	publish()
	await(t, "the first message", func() bool { return from.stored.Load() == 1 && p.Position() == 1 })
	full.Store(true)
	p.stuck.Store(true)
	await(t, "that nothing is stored", p.full.Load)
	publish()
	await(t, "a refusal", func() bool { return from.refused.Load() == 1 })
	full.Store(false)
	await(t, "that JetStream is there", func() bool { return !p.full.Load() })
	publish()
	await(t, "a message stored again, and the log read on", func() bool { return from.stored.Load() == 2 && p.Position() == 2 })
	if _, found, err := p.At(t.Context(), 1); err != nil || !found {
		t.Errorf("the first message: found %v, %v", found, err)
	}
}

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if err := room(dir, 3<<20); err != nil {
		t.Error(err)
	}
	if err := room(dir+"/none", 1); err == nil {
		t.Error("there is room in a directory that does not exist")
	}
}
