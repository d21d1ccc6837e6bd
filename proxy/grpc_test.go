package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/await"
)

// echoService answers a unary call and a stream; its messages are strings.
type echoService interface {
	unary(ctx context.Context, in string) (string, error)
	stream(s grpc.ServerStream) error
}

func describe() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*echoService)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			out, err := srv.(echoService).unary(ctx, in.Value)
			return wrapperspb.String(out), err
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(echoService).stream(s)
		}}},
	}
}

type echo struct{ t testing.TB }

func (e *echo) unary(ctx context.Context, in string) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-header", strings.Join(md["x-in"], ",")))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "t", "x-bytes-bin", "\x00\xff"))
	switch in {
	case "fail":
		st, err := status.New(codes.FailedPrecondition, "no: 100 % wrong\n").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "f"}}})
		if err != nil {
			e.t.Error(err)
		}
		return "", st.Err()
	case "wait":
		<-ctx.Done()
		return "", status.FromContextError(ctx.Err()).Err()
	case "deadline":
		d, ok := ctx.Deadline()
		if !ok || time.Until(d) > time.Minute {
			e.t.Errorf("deadline %v, %v", d, ok)
		}
	}
	return in, nil
}

func (e *echo) stream(s grpc.ServerStream) error {
	for {
		m := new(wrapperspb.StringValue)
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			s.SetTrailer(metadata.Pairs("x-trailer", "end"))
			return nil
		} else if err != nil {
			return err
		}
		if m.Value == "fail" {
			return status.Error(codes.Aborted, "half way")
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// serveGRPC starts a grpc-go server and returns it and its host:port.
func serveGRPC(t testing.TB) (*grpc.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	s.RegisterService(describe(), &echo{t})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); await.Value(t, done, "the server to stop") })
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func call(ctx context.Context, c *grpc.ClientConn, in string, opts ...grpc.CallOption) (string, error) {
	out := new(wrapperspb.StringValue)
	err := c.Invoke(ctx, "/test.Echo/Unary", wrapperspb.String(in), out, opts...)
	return out.Value, err
}

func TestGRPC(t *testing.T) {
	_, addr := serveGRPC(t)
	p := start(t, to("h2c://"+addr))
	c := dial(t, p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()

	var header, trailer metadata.MD
	out, err := call(metadata.AppendToOutgoingContext(ctx, "x-in", "1"), c, "hello", grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil || out != "hello" || header.Get("x-header")[0] != "1" || trailer.Get("x-trailer")[0] != "t" || trailer.Get("x-bytes-bin")[0] != "\x00\xff" {
		t.Errorf("unary: %q, %v, header %v, trailer %v", out, err, header, trailer)
	}
	if large := strings.Repeat("x", 3<<20); true {
		if out, err := call(ctx, c, large); err != nil || out != large {
			t.Errorf("a large message: %d bytes, %v", len(out), err)
		}
	}
	_, err = call(ctx, c, "fail", grpc.Trailer(&trailer))
	st := status.Convert(err)
	if st.Code() != codes.FailedPrecondition || st.Message() != "no: 100 % wrong\n" || len(st.Details()) != 1 || trailer.Get("x-trailer")[0] != "t" {
		t.Errorf("a status: %v %v, trailer %v", st, st.Details(), trailer)
	}
	if _, err := call(ctx, c, "deadline"); err != nil {
		t.Error(err)
	}
	short, cancelShort := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancelShort()
	if _, err := call(short, c, "wait"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("out of time: %v", err)
	}

	// A conversation, both directions open at once.
	s, err := c.NewStream(ctx, &describe().Streams[0], "/test.Echo/Stream")
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := s.SendMsg(wrapperspb.String("ping")); err != nil {
			t.Fatal(err)
		}
		m := new(wrapperspb.StringValue)
		if err := s.RecvMsg(m); err != nil || m.Value != "ping" {
			t.Fatalf("%q, %v", m.Value, err)
		}
	}
	s.CloseSend()
	if err := s.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) || s.Trailer().Get("x-trailer")[0] != "end" {
		t.Errorf("the end of the stream: %v, trailer %v", err, s.Trailer())
	}
	s, err = c.NewStream(ctx, &describe().Streams[0], "/test.Echo/Stream")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SendMsg(wrapperspb.String("fail"))
	if err := s.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.Aborted {
		t.Errorf("a stream that failed: %v", err)
	}
	eventually(t, "all to leave", func() bool { st := p.Status(); return st.Inside == 0 && st.Upstreams[0].Running == 0 })

	// Many at once, on one connection.
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if out, err := call(ctx, c, "x"); err != nil || out != "x" {
					t.Errorf("%q, %v", out, err)
					return
				}
			}
		})
	}
	await.All(t, &wg, "the clients to end")
}

// Refusals and failures are gRPC statuses, with what a client needs to react.
func TestGRPCRefusals(t *testing.T) {
	server, addr := serveGRPC(t)
	p := start(t, to("h2c://"+addr))
	c := dial(t, p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	if _, err := call(ctx, c, "x"); err != nil {
		t.Fatal(err)
	}
	p.state.Load().upstreams[0].gate.Drain()
	var trailer, header metadata.MD
	_, err := call(ctx, c, "x", grpc.Header(&header), grpc.Trailer(&trailer))
	st := status.Convert(err)
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if st.Code() != codes.Unavailable || info.GetDomain() != "spillgate" || info.GetReason() != "DRAINING" || retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("refused: %v %v", st, st.Details())
	}
	if v := trailer.Get("grpc-retry-pushback-ms"); len(v) != 1 || v[0] == "-1" || len(trailer.Get("spillgate-bin")) != 1 {
		t.Errorf("refused: header %v, trailer %v", header, trailer)
	}
	if s, err := c.NewStream(ctx, &describe().Streams[0], "/test.Echo/Stream"); err != nil {
		t.Error(err)
	} else if err := s.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream refused: %v", err)
	}

	wrong := start(t, to("http://"+addr))
	if _, err := call(ctx, dial(t, wrong.addr), "x"); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "h2c://") {
		t.Errorf("gRPC to an http:// upstream: %v", err)
	}

	// The server dies with a call inside.
	again := start(t, to("h2c://"+addr))
	c = dial(t, again.addr)
	s, err := c.NewStream(ctx, &describe().Streams[0], "/test.Echo/Stream")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SendMsg(wrapperspb.String("x"))
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a stream whose server died: %v", err)
	}
	if _, err := call(ctx, c, "x"); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), addr) {
		t.Errorf("the server is gone: %v", err)
	}
	eventually(t, "all to leave", func() bool { st := again.Status(); return st.Inside == 0 && st.Upstreams[0].Running == 0 })
}

// A call whose request is malformed, and one through Egress that took too long, end with a status of
// gRPC: that of a call that may have been executed is none that clients send again by themselves.
func TestStatusOfFailedCalls(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
		}
	}))
	cfg := to("h2c://" + addr)
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: "h2c://" + addr}}
	cfg.Limits.Response = 50 * time.Millisecond
	p := start(t, cfg)
	for _, test := range []struct{ to, path, body, want string }{
		{p.addr, "/", "this is no chunk\r\n", "1"},
		{p.EgressAddrs()[0].String(), "/hangs", "0\r\n\r\n", "4"},
	} {
		c, err := net.Dial("tcp", test.to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n%s", test.path, test.body)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
		} else if got := resp.Header.Get("Grpc-Status"); resp.StatusCode != 200 || got != test.want {
			t.Errorf("%s: answered %d with the status %q, expected %s", test.path, resp.StatusCode, got, test.want)
		}
	}
}
