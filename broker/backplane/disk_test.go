package backplane

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// Unless its size is said, the log takes no more than half of what the disk has room for, and keeps its size when that changes.
func TestLogFitsTheDisk(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.halved = 3 // as if the disks of others were too small
	open(t, p)
	info, err := p.stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := min(int64(logBytes), p.server.JetStreamConfig().MaxStore/2) / 8
	if info.Config.MaxBytes != want || p.size != want {
		t.Errorf("a log of %d and %d bytes, want %d", info.Config.MaxBytes, p.size, want)
	}
	p.halved = 0
	if size, err := p.logSize(t.Context()); size != want || err != nil {
		t.Errorf("once it is there, a log of %d bytes, want %d: %v", size, want, err)
	}
	if p.smaller() {
		t.Error("a log that exists is to be made smaller")
	}
	p.sized = false
	for p.smaller() {
		p.size /= 2
	}
	if p.size < leastLog || p.size >= 2*leastLog {
		t.Errorf("the smallest log has %d bytes, want %d or a little more", p.size, leastLog)
	}
	p.cfg.MaxBytes = 1 << 30
	if size, err := p.logSize(t.Context()); size != 1<<30 || err != nil || p.smaller() {
		t.Errorf("a log of %d bytes where 1 GiB was asked for: %v", size, err)
	}
}

// A node of several does not begin with what it has stored without others.
func TestStoredAlone(t *testing.T) {
	data := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if s, err := embed(Config{Node: "n1", Data: data, Listen: taken.Addr().String()}.WithDefaults(), nil); err == nil {
		s.Shutdown()
		t.Error("it listens where another one does")
	}
	if _, err := os.Stat(filepath.Join(data, aloneFile)); err == nil { // by mistake, say, beside the node of several that has the address
		t.Error("a node that has not begun has stored")
	}
	alone := New(Config{Node: "n1", Data: data}, slog.New(slog.DiscardHandler))
	hub := engine.New(engine.Config{})
	defer hub.Close()
	if err := alone.Open(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	alone.Close()
	for _, about := range []string{"as it is", "as an older version left it"} {
		p := New(Config{Node: "n1", Data: data, Cluster: "127.0.0.1:0", Routes: []string{"127.0.0.1:0", "127.0.0.1:1"}}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := p.Open(ctx, hub)
		cancel()
		p.Close()
		if err == nil || !strings.Contains(err.Error(), "another directory") {
			t.Errorf("%s: %v", about, err)
		}
		_ = os.Remove(filepath.Join(data, aloneFile))
	}
	open(t, New(Config{Node: "n1", Data: data}, slog.New(slog.DiscardHandler)))
}
