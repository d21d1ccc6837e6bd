package grpcgate

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// talk answers each message with itself until the client ends.
func talk(ss grpc.ServerStream) error {
	for {
		var m wrapperspb.StringValue
		if err := ss.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := ss.SendMsg(&m); err != nil {
			return err
		}
	}
}

func openChat(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod)
	if err != nil {
		t.Fatal(err)
	}
	return ss
}

func exchange(t *testing.T, ss grpc.ClientStream) {
	t.Helper()
	var m wrapperspb.StringValue
	if err := errors.Join(ss.SendMsg(wrapperspb.String("x")), ss.RecvMsg(&m)); err != nil || m.Value != "x" {
		t.Fatalf("%q, %v", m.Value, err)
	}
}

// Streams that never speak, and ones that have been answered, hold neither slot
// nor credit, and work all the same.
func TestQuietStreamsHoldNoSlot(t *testing.T) {
	gate := newGate(t, fixed(2))
	s := serve(t, gate, &echo{chat: talk}, []Option{WithStreamHold(5 * time.Millisecond)})
	conn, c := dialGated(t, s.addr, []ClientOption{WithStreamHold(5 * time.Millisecond)})
	warm(t, conn)
	before := gate.Stats().Served
	var open []grpc.ClientStream
	for i := range 20 { // ten times the slots
		ss := openChat(t, conn)
		if i%2 == 0 {
			exchange(t, ss)
		}
		open = append(open, ss)
		eventually(t, "slot and credit are back", settled(c, conn, gate))
	}
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Errorf("a call beside them: %v", err)
	}
	for _, ss := range open {
		exchange(t, ss)
		ss.CloseSend()
		if err := ss.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	}
	eventually(t, "all returned", settled(c, conn, gate))
	// Most that were silent took another slot. On a busy machine a stream that speaks may have been
	// silent for long enough, and one that is silent may have spoken before its server saw it.
	got, want := gate.Stats().Served, before
	want[work.Done]++
	want[work.Released] = min(max(got[work.Released], before[work.Released]+20), before[work.Released]+40)
	if got != want {
		t.Errorf("%v after %v: streams are no samples", got, before)
	}
}

// A stream that was silent has a slot again when its handler works on the next message, waits
// for one where none is free, and ends with the gate's refusal where it gets none.
func TestStreamsTakeAnotherSlot(t *testing.T) {
	gate := newGate(t, fixed(1))
	saw := make(chan int, 1)
	s := serve(t, gate, &echo{chat: func(ss grpc.ServerStream) error {
		for {
			var m wrapperspb.StringValue
			if err := ss.RecvMsg(&m); err != nil {
				return errors.New("rewritten by the handler")
			}
			saw <- gate.Stats().Running
		}
	}}, []Option{WithStreamHold(5 * time.Millisecond)})
	ss := openChat(t, dial(t, s.addr))
	lent := func(n uint64) {
		t.Helper()
		eventually(t, "the slot is lent", func() bool { return gate.Stats().Served[work.Released] == n && gate.Stats().Running == 0 })
	}
	for n := range 2 {
		lent(uint64(n + 1))
		ss.SendMsg(wrapperspb.String("x"))
		if running := await.Value(t, saw, "what the handler saw"); running != 1 {
			t.Errorf("%d slots are in use while the handler works, expected its own", running)
		}
	}
	lent(3)
	holder, err := gate.Enter(t.Context(), live.Request{})
	if err != nil {
		t.Fatal(err)
	}
	ss.SendMsg(wrapperspb.String("x"))
	eventually(t, "the stream waits for a slot", func() bool { return gate.Stats().Waiting == 1 })
	holder.Leave(work.Ignored)
	if running := await.Value(t, saw, "what the handler saw"); running != 1 {
		t.Errorf("%d slots are in use while the handler works, expected its own", running)
	}
	lent(4) // the holder beside it
	gate.Drain()
	ss.SendMsg(wrapperspb.String("x"))
	err = ss.RecvMsg(new(wrapperspb.StringValue))
	if info, retry := details(err); status.Code(err) != codes.Unavailable || info.GetReason() != "DRAINING" || retry == nil || ss.Trailer()["grpc-retry-pushback-ms"][0] == "-1" {
		t.Errorf("a stream that got no slot: %v, trailer %v", err, ss.Trailer())
	}
}

// A stream whose client takes nothing of what its handler sends holds no slot.
func TestUnreadStreamsHoldNoSlot(t *testing.T) {
	gate := newGate(t, fixed(2))
	s := serve(t, gate, &echo{chat: func(ss grpc.ServerStream) error {
		for {
			if err := ss.SendMsg(wrapperspb.String(strings.Repeat("x", 60<<10))); err != nil {
				return err
			}
		}
	}}, []Option{WithStreamHold(time.Hour)})
	conn := dial(t, s.addr)
	for range 6 {
		openChat(t, conn)
	}
	eventually(t, "their slots to be free", func() bool { st := gate.Stats(); return st.Running == 0 && st.Served[work.Released] == 6 })
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Errorf("a call beside them: %v", err)
	}
}

// A handler that works keeps its slot however long it takes to answer.
func TestWorkingStreamsHoldTheirSlot(t *testing.T) {
	const hold = 50 * time.Millisecond
	gate := newGate(t, fixed(2))
	got, release := make(chan struct{}), make(chan struct{})
	s := serve(t, gate, &echo{chat: func(ss grpc.ServerStream) error {
		var m wrapperspb.StringValue
		if err := ss.RecvMsg(&m); err != nil {
			return err
		}
		got <- struct{}{}
		<-release
		return ss.SendMsg(&m)
	}}, []Option{WithStreamHold(hold)})
	conn := dial(t, s.addr)
	var open []grpc.ClientStream
	for begun := false; !begun; { // on a slow machine its message may come too late
		ss := openChat(t, conn)
		ss.SendMsg(wrapperspb.String("x"))
		<-got
		open, begun = append(open, ss), gate.Stats().Running == 1
	}
	time.Sleep(4 * hold)
	if st := gate.Stats(); st.Running != 1 {
		t.Errorf("%+v: a stream that is worked on has no slot", st)
	}
	close(release)
	for _, ss := range open {
		ss.CloseSend()
		for ss.RecvMsg(new(wrapperspb.StringValue)) == nil {
		}
	}
}

// One client has as many streams as it may; others are not concerned.
func TestStreamsAreBounded(t *testing.T) {
	gate := newGate(t, fixed(50))
	var counters Counters
	s := serve(t, gate, &echo{chat: talk}, []Option{WithStreamLimit(3), WithCounters(&counters)})
	plain := dial(t, s.addr)
	gated, _ := dialGated(t, s.addr, nil)
	warm(t, gated)
	for _, conn := range []*grpc.ClientConn{plain, gated} {
		var open []grpc.ClientStream
		for range 3 {
			ss := openChat(t, conn)
			exchange(t, ss)
			open = append(open, ss)
		}
		more := openChat(t, conn)
		err := more.RecvMsg(new(wrapperspb.StringValue))
		if info, retry := details(err); status.Code(err) != codes.ResourceExhausted || info.GetReason() != "SHARE" || retry == nil || len(more.Trailer()["grpc-retry-pushback-ms"]) != 1 {
			t.Errorf("the fourth of three: %v, trailer %v", err, more.Trailer())
		}
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Errorf("a call beside them: %v", err)
		}
		open[0].CloseSend()
		eventually(t, "room for another", func() bool {
			ss := openChat(t, conn)
			ss.SendMsg(wrapperspb.String("x"))
			return ss.RecvMsg(new(wrapperspb.StringValue)) == nil
		})
		for _, ss := range open {
			ss.CloseSend()
		}
	}
	if counters.StreamsRefused.Load() < 2 {
		t.Errorf("%d refused are counted", counters.StreamsRefused.Load())
	}
	gated.Close()
	plain.Close()
	eventually(t, "all returned", func() bool { return gate.Stats().Running == 0 })
}

// A refused stream has a trailer and no header: gRPC's form "trailers-only".
func TestRefusedStream(t *testing.T) {
	gate := newGate(t, fixed(1))
	s := serve(t, gate, &echo{chat: talk}, nil)
	conn := dial(t, s.addr)
	gate.Drain()
	ss := openChat(t, conn)
	err := ss.RecvMsg(new(wrapperspb.StringValue))
	header, _ := ss.Header()
	if info, _ := details(err); info.GetReason() != "DRAINING" || len(header["spillgate-bin"]) != 0 || len(ss.Trailer()["grpc-retry-pushback-ms"]) != 1 {
		t.Errorf("%v, header %v, trailer %v", err, header, ss.Trailer())
	}
}
