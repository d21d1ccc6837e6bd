package grpcgate

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/wire"
)

// slowStream is a server's stream whose messages are sent when a test lets them.
type slowStream struct {
	grpc.ServerStream
	ctx  context.Context
	sent chan wire.Grant
}

func (s *slowStream) Context() context.Context { return s.ctx }

func (s *slowStream) SendMsg(m any) error {
	reply, err := wire.ParseReply(m.(*wrapperspb.BytesValue).Value)
	s.sent <- reply.Grant
	return err
}

// Of grants that come faster than they can be sent the newest goes; close waits
// for the one under way, because a stream must not be used after its handler.
func TestControlSendsTheNewest(t *testing.T) {
	s := &slowStream{ctx: within(t), sent: make(chan wire.Grant)}
	c := &control{stream: s}
	c.idle.L = &c.mu
	c.offer(wire.Grant{Seq: 1})
	eventually(t, "the first is being sent", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sending && !c.pending
	})
	for _, seq := range []uint32{2, 5, 3, 4} {
		c.offer(wire.Grant{Seq: seq})
	}
	if got := []uint32{await.Value(t, s.sent, "a message").Seq, await.Value(t, s.sent, "a message").Seq}; got[0] != 1 || got[1] != 5 {
		t.Errorf("sent %v, expected 1 and 5", got)
	}
	eventually(t, "nothing is being sent", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.sending
	})
	c.offer(wire.Grant{Seq: 6})
	eventually(t, "it is being sent", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sending && !c.pending
	})
	closed := make(chan struct{})
	go func() { c.close(); close(closed) }()
	select {
	case <-closed:
		t.Error("closed while a message was being sent")
	case <-time.After(20 * time.Millisecond):
	}
	await.Value(t, s.sent, "a message")
	await.Value(t, closed, "the control stream to end")
	c.offer(wire.Grant{Seq: 7}) // must not send any more
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sending {
		t.Error("sending after close")
	}
}

// A grant made while there was no control stream is sent when one opens.
func TestMissedGrantIsSent(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn := dial(t, s.addr)
	if _, err := call1(withTags(within(t), wire.Tags{Credits: true}), conn, "x"); err != nil {
		t.Fatal(err)
	}
	ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
	if err != nil {
		t.Fatal(err)
	}
	var msg wrapperspb.BytesValue
	if err := ss.RecvMsg(&msg); err != nil {
		t.Fatal(err)
	}
	if reply, err := wire.ParseReply(msg.Value); err != nil || !reply.HasGrant {
		t.Errorf("%+v, %v", reply, err)
	}
}
