package nsq

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	client "github.com/nsqio/go-nsq"

	"github.com/spillgate/spillgate/broker/access"
)

// looked starts a lookup that tells an address, and returns its own.
func looked(t *testing.T, at string) string {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tells, err := net.ResolveTCPAddr("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLookup(func() net.Addr { return tells }, log.New(io.Discard, "", 0))
	done := make(chan struct{})
	go func() { _ = l.Serve(in, nil); close(done) }()
	t.Cleanup(func() { in.Close(); l.Close(); <-done })
	return in.Addr().String()
}

// A stock consumer that knows the lookup alone finds the node.
func TestLookup(t *testing.T) {
	_, addr := start(t, access.Config{}, Limits{})
	var got bag
	c, err := client.NewConsumer("a.b", "c", client.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	c.SetLoggerLevel(client.LogLevelMax)
	c.AddHandler(client.HandlerFunc(func(m *client.Message) error { return got.put(m) }))
	if err := c.ConnectToNSQLookupd(looked(t, addr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop(); <-c.StopChan })
	await(t, "the consumer finds the node", func() bool { return c.Stats().Connections == 1 })
	p := producer(t, addr)
	await(t, "a message comes", func() bool { // what is published before the consumer has subscribed goes to nobody
		if err := p.Publish("a.b", []byte("x")); err != nil {
			t.Fatal(err)
		}
		return got.len() > 0
	})
}

// A name that no topic has is refused with the reason, and a node that listens on every address is told by the one that was asked.
func TestLookupAnswers(t *testing.T) {
	addr := looked(t, "0.0.0.0:4150")
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"/lookup?topic=a":     {http.StatusOK, "127.0.0.1 4150"},
		"/nodes":              {http.StatusOK, "127.0.0.1 4150"},
		"/lookup":             {http.StatusBadRequest, "MISSING_ARG_TOPIC"},
		"/lookup?topic=a%20b": {http.StatusBadRequest, "INVALID_ARG_TOPIC"},
		"/topic/create":       {http.StatusNotFound, ""},
	} {
		answer, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Message   string  `json:"message"`
			Producers []place `json:"producers"`
		}
		_ = json.NewDecoder(answer.Body).Decode(&in)
		answer.Body.Close()
		says := in.Message
		for _, p := range in.Producers {
			says += p.Broadcast + " 4150"
			if p.TCP != 4150 {
				t.Errorf("%s: port %d", path, p.TCP)
			}
		}
		if answer.StatusCode != want.code || says != want.says {
			t.Errorf("%s: %d %q, want %d %q", path, answer.StatusCode, says, want.code, want.says)
		}
	}
}
