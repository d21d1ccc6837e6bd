package etcd

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/guard/etcd/keyrange"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/needs"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// request and answer have the getters of etcd's messages.
type request struct {
	key, end string
	limit    int64
}

func (r *request) GetKey() []byte      { return []byte(r.key) }
func (r *request) GetRangeEnd() []byte { return []byte(r.end) }
func (r *request) GetLimit() int64     { return r.limit }

type answer struct{ count int64 }

func (a *answer) GetCount() int64 { return a.count }

// txn is a transaction of an etcd before 3.7.
type txn struct{ bytes []byte }

func (t *txn) Marshal() ([]byte, error) { return t.bytes, nil }

func field(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

// How wide a range is is known from answers, and forgotten in time.
func TestKinds(t *testing.T) {
	g := &Guard{}
	kind := func(method string, req any) string { return g.content(method, req).Kind }
	pods := &request{"/pods/", "/pods0", 0}
	const unseenWidth = " of unseen width"
	if got := kind(keyrange.MethodRange, pods); got != keyrange.MethodRange+unseenWidth {
		t.Errorf("before the first answer: %q", got)
	}
	for _, tt := range []struct {
		count, limit int64
		want         string
	}{
		{999, 0, ""}, {1000, 0, " of 10^3 keys"}, {9999, 0, " of 10^3 keys"}, {1_234_567, 0, " of 10^6 keys"},
		{500, 500, " of 10^6 keys"}, // counted to the limit
		{12, 0, ""}, {-1, 0, ""},
	} {
		g.learn(keyrange.MethodRange, &request{"/pods/", "/pods0", tt.limit}, &answer{tt.count})
		want := tt.want
		if want != "" {
			want = keyrange.MethodRange + want
		}
		if got := kind(keyrange.MethodRange, pods); got != want {
			t.Errorf("after an answer of %d, limit %d: %q, expected %q", tt.count, tt.limit, got, want)
		}
	}
	g.learn(keyrange.MethodRange, &request{"a", "b", 0}, &answer{5000})
	list := field(2, field(1, field(1, "a")+field(2, "b")))
	for name, tt := range map[string]struct {
		method string
		req    any
		want   string
	}{
		"one key":           {keyrange.MethodRange, &request{key: "k"}, ""},
		"a delete":          {keyrange.MethodDeleteRange, &request{"a", "b", 0}, keyrange.MethodDeleteRange + " of 10^3 keys"},
		"a put":             {"/etcdserverpb.KV/Put", &request{key: "k"}, ""},
		"a transaction":     {keyrange.MethodTxn, &txn{[]byte(list)}, keyrange.MethodTxn + " of 10^3 keys"},
		"with one unseen":   {keyrange.MethodTxn, &txn{[]byte(list + field(2, field(1, field(1, "x")+field(2, "y"))))}, keyrange.MethodTxn + " of 10^3 keys"},
		"of puts":           {keyrange.MethodTxn, &txn{[]byte(field(2, field(2, field(1, "k"))))}, ""},
		"no message at all": {keyrange.MethodRange, 7, ""},
	} {
		if got := kind(tt.method, tt.req); got != tt.want {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		}
	}
	// What etcd has proposed it applies, so only what reads is cancelled.
	puts := field(2, field(2, field(1, "k")))
	for name, tt := range map[string]struct {
		method string
		req    any
		want   bool
	}{
		"a range":                {keyrange.MethodRange, pods, false},
		"a transaction of lists": {keyrange.MethodTxn, &txn{[]byte(list)}, false},
		"one that puts as well":  {keyrange.MethodTxn, &txn{[]byte(list + puts)}, true},
		"a delete":               {keyrange.MethodDeleteRange, &request{"a", "b", 0}, true},
		"a put":                  {"/etcdserverpb.KV/Put", &request{key: "k"}, true},
		"one that is unknown":    {keyrange.MethodTxn, 7, true},
	} {
		if got := g.content(tt.method, tt.req).NoCancel; got != tt.want {
			t.Errorf("%s: never cancelled %v, expected %v", name, got, tt.want)
		}
	}
	for i := range maxWidths {
		g.learn(keyrange.MethodRange, &request{key: strings.Repeat("x", i%100) + string(rune('a'+i%26)) + string(rune(i)), end: "z"}, &answer{1})
	}
	if n := len(g.widths.young) + len(g.widths.old); n > maxWidths {
		t.Errorf("%d widths are remembered, expected at most %d", n, maxWidths)
	}
	if got := kind(keyrange.MethodRange, &request{"a", "b", 0}); got != keyrange.MethodRange+unseenWidth {
		t.Errorf("long after: %q", got)
	}
}

// index is what etcd has: counts of all keys share it, puts need it alone. A count does
// not listen to its context.
type index struct{ sync.RWMutex }

func (x *index) desc() *grpc.ServiceDesc {
	method := func(name string, req any, do func() any) grpc.MethodDesc {
		full := "/etcdserverpb.KV/" + name
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, dec func(any) error, mw grpc.UnaryServerInterceptor) (any, error) {
			if err := dec(new(emptypb.Empty)); err != nil {
				return nil, err
			}
			_, err := mw(ctx, req, &grpc.UnaryServerInfo{FullMethod: full}, func(ctx context.Context, _ any) (any, error) {
				return do(), ctx.Err()
			})
			return new(emptypb.Empty), err
		}}
	}
	return &grpc.ServiceDesc{ServiceName: "etcdserverpb.KV", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		method("Put", &request{key: "k"}, func() any {
			x.Lock()
			defer x.Unlock()
			return nil
		}),
		method("Range", &request{"\x00", "\x00", 0}, func() any {
			x.RLock()
			defer x.RUnlock()
			time.Sleep(150 * time.Millisecond)
			return &answer{1_000_000}
		}),
	}}
}

// TestCountingInALoop: clients that count all keys keep the index from all puts. They are
// named, cancelled, told ABORTED and kept out; puts go on.
func TestCountingInALoop(t *testing.T) {
	needs.Dir(t, "/proc/self/ns") // Linux
	named := make(chan live.CulpritNotice, 1024)
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 50 * time.Millisecond},
		Culprit: live.CulpritConfig{Mode: culprit.Enforce, Notify: func(n live.CulpritNotice) {
			select {
			case named <- n:
			default:
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(gate)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(gate.Close(), g.Close()); err != nil {
			t.Error(err)
		}
	}()
	server := grpc.NewServer(g.ServerOptions()...)
	server.RegisterService(new(index).desc(), struct{}{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	defer running.Wait()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	call := func(name string) error {
		return conn.Invoke(ctx, "/etcdserverpb.KV/"+name, new(emptypb.Empty), new(emptypb.Empty))
	}
	var puts, aborted, kept atomic.Int64
	for range 32 {
		running.Go(func() {
			for ctx.Err() == nil {
				if call("Put") == nil {
					puts.Add(1)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	eventually(t, "puts", func() bool { return puts.Load() > 500 })
	for range 3 {
		running.Go(func() {
			for ctx.Err() == nil {
				err := call("Range")
				if _, _, again := grpcgate.Resend(ctx, err); status.Code(err) == codes.Aborted && again {
					aborted.Add(1)
				}
				if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "culprit") {
					kept.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	eventually(t, "a cancel", func() bool { return aborted.Load() > 0 })
	was := puts.Load()
	eventually(t, "puts, and counts that are kept out", func() bool { return puts.Load() > was+500 && kept.Load() > 0 })
	for n := range named {
		if n.Step != culprit.Statement {
			continue
		}
		// What is lost most to is the index, or the slots that those hold who wait for it.
		if !strings.HasPrefix(n.Kind, keyrange.MethodRange+" of ") || n.Resource != "etcd index" && n.Resource != "slots" {
			t.Errorf("cancelled %q for %q, expected a wide range for the index or the slots", n.Kind, n.Resource)
		}
		break
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// Without culprits to look for a Guard works, and says that it sees nothing.
func TestWithoutCulprits(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: live.CulpritConfig{Mode: culprit.Off}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	g, err := New(gate)
	if err == nil || g == nil {
		t.Fatalf("New: %v, %v; expected a Guard and what it lacks", g, err)
	}
	if len(g.ServerOptions()) == 0 || g.Close() != nil {
		t.Error("it cannot be used")
	}
}
