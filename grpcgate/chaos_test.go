package grpcgate

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Calls, streams, cancellations, panics, cut connections and clients that come
// and go, all at once: at the end no ticket, no permit and no account is out.
func TestChaosReturnsEverything(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	gates := []*live.Gate{newGate(t, fixed(3)), newGate(t, fixed(3))}
	var servers []*testServer
	var addrs []string
	for _, gate := range gates {
		e := &echo{
			handle: func(ctx context.Context, req string) (string, error) {
				switch req {
				case "slow":
					select {
					case <-time.After(5 * time.Millisecond):
					case <-ctx.Done():
					}
				case "error":
					return "", status.Error(codes.Internal, "as told")
				case "panic":
					panic("as told")
				}
				return req, ctx.Err()
			},
			chat: func(ss grpc.ServerStream) error {
				var m wrapperspb.StringValue
				for range 3 {
					if err := ss.RecvMsg(&m); err != nil {
						return err
					}
					if err := ss.SendMsg(&m); err != nil {
						return err
					}
				}
				return nil
			},
		}
		recovering := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
			defer func() {
				if recover() != nil {
					err = status.Error(codes.Internal, "panic")
				}
			}()
			return handle(ctx, req)
		}
		s := serve(t, gate, e, nil, grpc.UnaryInterceptor(recovering))
		servers, addrs = append(servers, s), append(addrs, s.addr)
	}
	end := time.Now().Add(2 * time.Second)
	var ok atomic.Int64
	var wg sync.WaitGroup
	for worker := range 12 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			chance := rand.New(rand.NewPCG(seed, uint64(worker)))
			for time.Now().Before(end) {
				conn, c, _ := several(t, []ClientOption{WithRetries(1)}, addrs...)
				var calls sync.WaitGroup
				for range 40 {
					what, wait := chance.IntN(12), time.Duration(chance.IntN(30))*time.Millisecond
					calls.Add(1)
					go func() {
						defer calls.Done()
						if what > 8 {
							wait = patience
						}
						ctx, cancel := context.WithTimeout(context.Background(), wait)
						defer cancel()
						var err error
						switch what {
						case 0:
							_, err = call1(ctx, conn, "error")
						case 1:
							_, err = call1(ctx, conn, "panic")
						case 2, 3:
							err = chat(ctx, conn)
						case 4:
							cancel()
							_, err = call1(ctx, conn, "x")
						case 5:
							_, err = call1(ctx, conn, "x", grpc.WaitForReady(true))
						default:
							_, err = call1(ctx, conn, "slow")
						}
						if err == nil {
							ok.Add(1)
						}
					}()
				}
				if chance.IntN(10) == 0 {
					servers[chance.IntN(len(servers))].lis.cut()
				}
				if chance.IntN(2) == 0 {
					calls.Wait()
					eventually(t, "permits returned", settled(c, conn))
				}
				conn.Close() // possibly in the middle
				calls.Wait()
			}
		}()
	}
	wg.Wait()
	for _, gate := range gates {
		eventually(t, "nothing left", func() bool {
			st := gate.Stats()
			return st.Running == 0 && st.Waiting == 0 && st.Clients == 0 && st.Issued == 0
		})
	}
	if ok.Load() == 0 {
		t.Error("no call succeeded")
	}
	t.Logf("%d calls succeeded", ok.Load())
}

// chat opens a stream and exchanges a few messages, or gives up in the middle.
func chat(ctx context.Context, conn *grpc.ClientConn) error {
	ss, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod)
	if err != nil {
		return err
	}
	var m wrapperspb.StringValue
	for range 3 {
		if err := ss.SendMsg(wrapperspb.String("x")); err != nil {
			return err
		}
		if err := ss.RecvMsg(&m); err != nil {
			return err
		}
	}
	if err := ss.RecvMsg(&m); err != io.EOF {
		return err
	}
	return nil
}

// A client that floods a server past its window, and its control stream with
// demand, does not keep an obedient one from being served.
func TestFloodDoesNotStarveTheObedient(t *testing.T) {
	cfg := fixed(2)
	cfg.Objective = 100 * time.Millisecond
	gate := newGate(t, cfg)
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		time.Sleep(time.Millisecond)
		return req, nil
	}}, nil)
	flood := dial(t, s.addr)
	// The flood ends by itself where this machine has no time for anybody.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 200 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			greedy := withTags(ctx, wire.Tags{Credits: true, Demand: wire.MaxCount})
			for ctx.Err() == nil {
				call1(greedy, flood, "x")
			}
		}()
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		ss, err := flood.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
		for n := 0; err == nil; n++ {
			err = ss.SendMsg(demandMessage(n % 3))
		}
	}()
	eventually(t, "the flood is on", func() bool { st := gate.Stats(); return st.Shed[work.Share]+st.Shed[work.Delay] > 0 })
	conn, c := dialGated(t, s.addr, nil)
	for done := 0; done < 50; {
		if _, err := call1(within(t), conn, "x"); err == nil {
			done++
		}
	}
	cancel()
	wg.Wait()
	eventually(t, "all returned", settled(c, conn, gate))
}
