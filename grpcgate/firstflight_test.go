package grpcgate

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Long polls and streams that are open before a server has answered anything hold back no others for long where it has no
// credits, or no control service.
func TestStreamsBeforeTheFirstAnswer(t *testing.T) {
	const streams = 100 // one a second after the first eight would take longer than a test has
	for _, tt := range []struct {
		name  string
		serve func(*echo) string
	}{
		{"a plain server", func(e *echo) string { return serve(t, nil, e, nil).addr }},
		{"a gate without the control service", func(e *echo) string {
			s := grpc.NewServer(ServerOptions(newGate(t, fixed(2*streams)), WithStreamHold(-1))...)
			lis := listen(t)
			e.handle = func(_ context.Context, req string) (string, error) { return req, nil }
			s.RegisterService(e.desc(), struct{}{})
			go s.Serve(lis)
			t.Cleanup(s.Stop)
			return lis.Addr().String()
		}},
	} {
		var open atomic.Int64
		addr := tt.serve(&echo{chat: func(ss grpc.ServerStream) error {
			open.Add(1)
			<-ss.Context().Done()
			return nil
		}})
		conn, c := dialGated(t, addr, []ClientOption{WithStreamHold(-1)})
		ctx, cancel := context.WithCancel(within(t))
		began := time.Now()
		ended := make(chan struct{}, streams)
		for range streams {
			go func() {
				defer func() { ended <- struct{}{} }()
				ss, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, watchMethod)
				if err != nil || ss.SendMsg(wrapperspb.String("x")) != nil || ss.CloseSend() != nil {
					return
				}
				_ = ss.RecvMsg(new(wrapperspb.StringValue))
			}()
		}
		eventually(t, tt.name+": all streams are open", func() bool { return open.Load() == streams })
		t.Logf("%s: after %v", tt.name, time.Since(began))
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Errorf("%s: a call beside them: %v", tt.name, err)
		}
		cancel()
		for range streams {
			<-ended
		}
		eventually(t, tt.name+": no credit is out", settled(c, conn))
		conn.Close()
	}
}
