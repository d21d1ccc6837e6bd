package fastrpc

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// sum is a message of numbers.
type sum struct{ numbers []uint32 }

func (s *sum) AppendBinary(b []byte) ([]byte, error) {
	for _, n := range s.numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b, nil
}

func (s *sum) UnmarshalBinary(b []byte) error {
	if len(b)%4 != 0 {
		return errors.New("the sum is cut off")
	}
	for ; len(b) > 0; b = b[4:] {
		s.numbers = append(s.numbers, binary.BigEndian.Uint32(b))
	}
	return nil
}

func TestTypedMessages(t *testing.T) {
	_, address := serve(t, ServerConfig{}, func(s *Server) {
		s.Handle("add", Typed(func(_ context.Context, in, out *sum) error {
			if len(in.numbers) == 0 {
				return &Error{Code: 1, Message: "nothing to add"}
			}
			out.numbers = []uint32{0}
			for _, n := range in.numbers {
				out.numbers[0] += n
			}
			return nil
		}))
	})
	c := dial(t, ClientConfig{}, address)
	add := MethodOf[sum, sum](c, "add")
	var out sum
	if err := add.Call(within(t), &sum{[]uint32{1, 2, 39}}, &out); err != nil || len(out.numbers) != 1 || out.numbers[0] != 42 {
		t.Errorf("got %v, %v", out, err)
	}
	var own *Error
	if err := add.Call(within(t), &sum{}, &out); !errors.As(err, &own) || own.Code != 1 {
		t.Errorf("an error of the handler came as %v", err)
	}
	if _, err := c.Method("add").Call(within(t), []byte{1}, nil); !errors.As(err, &own) || !strings.Contains(own.Message, "cut off") {
		t.Errorf("a request that cannot be decoded returned %v", err)
	}
}

func TestTagsTravel(t *testing.T) {
	told := make(chan wire.Tags, 1)
	_, address := serve(t, ServerConfig{
		Gate: newGate(t, spillgate.Config{}),
		Classify: func(_ net.Addr, method string, claimed spillgate.Tags) spillgate.Tags {
			if method == "demoted" {
				claimed.Priority = 100
			}
			return claimed
		},
	}, func(s *Server) {
		tell := func(ctx context.Context, _, out []byte) ([]byte, error) {
			told <- live.TagsFrom(ctx)
			return out, nil
		}
		s.Handle("tell", tell)
		s.HandleInline("demoted", tell)
	})
	c := dial(t, ClientConfig{}, address)
	ctx := live.WithTags(within(t), wire.Tags{Workflow: "checkout", Class: spillgate.Interactive, Priority: 5, Attempt: 2})
	for method, priority := range map[string]int{"tell": 5, "demoted": 100} {
		for range 3 { // the second time the tags are known already
			if _, err := c.Method(method).Call(ctx, nil, nil); err != nil {
				t.Fatal(err)
			}
			got := <-told
			if got.Workflow != "checkout" || got.Class != spillgate.Interactive || int(got.Priority) != priority || got.Attempt != 2 ||
				got.Budget <= 0 || got.Budget > patience || !got.Credits {
				t.Errorf("%s was told %+v", method, got)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	_, address := serve(t, ServerConfig{Gate: newGate(t, spillgate.Config{})}, func(s *Server) {
		s.Handle("work", func(context.Context, []byte, []byte) ([]byte, error) {
			time.Sleep(2 * time.Millisecond)
			return nil, nil
		})
	})
	_, times, err := dial(t, ClientConfig{}, address).Method("work").CallTimed(within(t), nil, nil)
	if err != nil || times.Service < 2*time.Millisecond || times.Queued < 0 {
		t.Errorf("a handler of 2 ms took %+v, %v", times, err)
	}
}

func TestTLS(t *testing.T) {
	// A test server has a certificate for 127.0.0.1, and a client that trusts it.
	stand := httptest.NewTLSServer(nil)
	defer stand.Close()
	_, address := serve(t, ServerConfig{TLS: &tls.Config{Certificates: stand.TLS.Certificates}, Gate: newGate(t, spillgate.Config{})}, echoes)
	trust := stand.Client().Transport.(*http.Transport).TLSClientConfig
	c := dial(t, ClientConfig{TLS: &tls.Config{RootCAs: trust.RootCAs}}, address)
	out, err := c.Method("echo").Call(within(t), []byte("secret"), nil)
	if err != nil || string(out) != "secret" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := Dial(within(t), ClientConfig{TLS: &tls.Config{}}, address); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody trusts: %v", err)
	}
	if _, err := Dial(within(t), ClientConfig{}, address); err == nil {
		t.Error("a client without TLS was served")
	}
}
