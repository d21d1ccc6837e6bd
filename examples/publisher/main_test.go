package main

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/needs"
)

// output is written from any goroutine.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) has(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.text.String(), what)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// two runs two nodes with a topic that both publishers of these examples belong to the
// second of, and returns where they serve, and the state of places.
func two(t *testing.T) (addresses []string, nodes []*broker.Broker, placer *place.Placer) {
	t.Helper()
	url, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, name := range []string{"n1", "n2"} {
		b, err := broker.New(broker.Config{Listen: []string{"127.0.0.1:0"}, Cluster: backplane.Config{Node: name, URL: url}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Listen(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		at, _ := b.Addresses()
		addresses, nodes = append(addresses, at[0]), append(nodes, b)
	}
	placer, end, err := place.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if _, err := placer.Update(t.Context(), func(s *place.State) error {
		return errors.Join(s.SetNode("n1", place.Node{Address: addresses[0], Capacity: 1000, Draining: true}), s.SetNode("n2", place.Node{Address: addresses[1], Capacity: 1000}),
			s.SetTopic("sensors", place.Limits{Rate: 500, Burst: 50, Objective: 1, Strictest: 1e-3, Each: 10}))
	}); err != nil {
		t.Fatal(err)
	}
	for _, b := range nodes {
		await(t, "the nodes are up", func() bool { return b.Status().Phase == "serving" })
	}
	return addresses, nodes, placer
}

// asked checks that a publisher's objective counts.
func asked(t *testing.T, placer *place.Placer) {
	t.Helper()
	s, _, err := placer.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Topics["sensors"].Wanted(); got != 5e-3 {
		t.Errorf("the objective is %v s, want the 0.005 s that the publisher asks for", got)
	}
}

func TestFollows(t *testing.T) {
	addresses, nodes, placer := two(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output
	done := make(chan error, 1)
	go func() { done <- run(ctx, "sensors", []string{"mqtt://" + addresses[0]}, &out) }()
	await(t, "it is sent to the second node", func() bool { return out.has("sent to "+addresses[1]) && nodes[1].Status().Connections == 1 })
	await(t, "it goes on", func() bool { return out.has("20 published") })
	asked(t, placer)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPython(t *testing.T) {
	python := needs.Program(t, "/usr/bin/python3", "python3")
	if exec.Command(python, "-c", "import paho.mqtt.client").Run() != nil {
		needs.Dir(t, "paho-mqtt for Python")
	}
	addresses, nodes, placer := two(t)
	var out output
	cmd := exec.CommandContext(t.Context(), python, "../publisher-python/placed.py", "sensors", addresses[0])
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	await(t, "it publishes at the second node", func() bool { return out.has("20 published") && nodes[1].Status().Connections == 1 })
	asked(t, placer)
	if n := nodes[0].Status().Connections; n != 0 {
		t.Errorf("%d connections are at the first node still", n)
	}
}
