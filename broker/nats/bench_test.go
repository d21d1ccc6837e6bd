package nats

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
)

// BenchmarkPublish carries messages of 100 bytes from one stock client to another,
// through this server without and with a limit, and through nats-server.
func BenchmarkPublish(b *testing.B) {
	limit := engine.Limit{Filter: "bench", Rate: 1e8, Burst: 1e7}
	for _, c := range []struct {
		name  string
		start func() string
	}{
		{"ours", func() string { _, addr, _ := start(b, access.Config{}, Limits{Outbound: 64 << 20}); return addr }},
		{"limited", func() string { _, addr, _ := start(b, access.Config{}, Limits{Outbound: 64 << 20}, limit); return addr }},
		{"nats-server", func() string { return reference(b) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			addr := c.start()
			sub, pub := dial(b, addr), dial(b, addr)
			s, err := sub.SubscribeSync("bench")
			if err == nil {
				err = s.SetPendingLimits(-1, -1)
			}
			if err != nil {
				b.Fatal(err)
			}
			flush(b, sub)
			payload := make([]byte, 100)
			b.ResetTimer()
			go func() {
				for range b.N {
					_ = pub.Publish("bench", payload)
				}
				_ = pub.Flush()
			}()
			for range b.N {
				if _, err := s.NextMsg(10 * time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// reference starts a nats-server in this process.
func reference(b *testing.B) string {
	b.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		b.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.Fatal("nats-server does not start")
	}
	b.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.Addr().(*net.TCPAddr).String()
}

// BenchmarkRequest asks and answers, one at a time.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct {
		name  string
		start func() string
	}{
		{"ours", func() string { _, addr, _ := start(b, access.Config{}, Limits{}); return addr }},
		{"nats-server", func() string { return reference(b) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			addr := c.start()
			server, nc := dial(b, addr), dial(b, addr)
			if _, err := server.Subscribe("ask", func(m *client.Msg) { _ = m.Respond(m.Data) }); err != nil {
				b.Fatal(err)
			}
			flush(b, server)
			for b.Loop() {
				if _, err := nc.Request("ask", nil, 10*time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
