package grpcgate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// sharing starts a proxy that knows nothing of Spillgate and carries all its
// clients' calls on one connection.
func sharing(t *testing.T, target string) (addr string) {
	t.Helper()
	onward := &http.Transport{Protocols: new(http.Protocols)}
	onward.Protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: onward.Protocols, Handler: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", target },
		Transport:     onward,
		FlushInterval: -1,
	}}
	lis := listen(t)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(lis) }()
	t.Cleanup(func() { s.Close(); onward.CloseIdleConnections(); await.Value(t, done, "the server to stop") })
	return lis.Addr().String()
}

// Clients behind a proxy that shares a connection have an account each, and a
// control stream each by which they hear of credits.
func TestClientsBehindAProxy(t *testing.T) {
	gate := newGate(t, fixed(1))
	s := serve(t, gate, &echo{}, nil)
	addr := sharing(t, s.addr)
	const clients = 5
	var conns []*grpc.ClientConn
	var sides []*client
	for range clients {
		// Every call is to wait for its credit, so it may wait for longer than the
		// objective makes worth it.
		conn, c := dialGated(t, addr, []ClientOption{WithWallet(credit.WalletConfig{MaxWait: patience})})
		warm(t, conn)
		warm(t, conn)
		conns, sides = append(conns, conn), append(sides, c)
	}
	s.lis.mu.Lock()
	connections := len(s.lis.conns)
	s.lis.mu.Unlock()
	if got := gate.Stats().Clients; connections >= clients || got != clients { // the proxy may have connected anew
		t.Fatalf("%d accounts of %d clients on %d connections", got, clients, connections)
	}
	// More than there are credits for, so that some must be told.
	var wg sync.WaitGroup
	const each = 5
	var late atomic.Int64 // refused by the server: on a busy machine some wait for too long
	for _, conn := range conns {
		for range 10 {
			wg.Go(func() {
				for range each {
					var refusal *live.Refusal
					if _, err := call1(within(t), conn, "x"); errors.As(err, &refusal) && refusal.Reason == work.Delay {
						late.Add(1)
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	await.All(t, &wg, "the clients to end")
	if n := late.Load(); n > clients*10*each/4 {
		t.Errorf("%d of %d calls were refused although their clients wait for credits", n, clients*10*each)
	}
	for i, conn := range conns {
		eventually(t, "all returned", settled(sides[i], conn, gate))
	}
	if got := gate.Stats().Clients; got != clients {
		t.Errorf("%d accounts of %d clients", got, clients)
	}
}

// Two clients on one connection each get the grants that are theirs, and a
// returning client obeys the grants of its fresh account.
func TestAccountsOnOneConnection(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn := dial(t, s.addr)
	grant := func(conn *grpc.ClientConn, id uint64, demand int) wire.Grant {
		t.Helper()
		var trailer metadata.MD
		if _, err := call1(withTags(within(t), wire.Tags{Credits: true, Demand: demand, Asks: true, Client: id}), conn, "x", grpc.Trailer(&trailer)); err != nil && !fromSpillgate(err) {
			t.Fatal(err) // a refusal, on a busy machine, carries a grant too
		}
		if len(trailer[wire.MetadataKey]) != 1 {
			return wire.Grant{}
		}
		r, err := wire.ParseReply([]byte(trailer[wire.MetadataKey][0]))
		if err != nil || !r.HasGrant {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Grant
	}
	a, b, nameless := grant(conn, 1, 3), grant(conn, 2, 3), grant(conn, 0, 3)
	if gate.Stats().Clients != 3 || a.Epoch == b.Epoch || a.Epoch == nameless.Epoch {
		t.Errorf("%d accounts, grants %+v %+v %+v", gate.Stats().Clients, a, b, nameless)
	}
	if again := grant(conn, 1, 3); again.Epoch != a.Epoch || !again.Newer(a) {
		t.Errorf("%+v after %+v", again, a)
	}
	// One name, two connections: one account, until both are closed.
	other := dial(t, s.addr)
	if g := grant(other, 1, 3); g.Epoch != a.Epoch || gate.Stats().Clients != 3 {
		t.Errorf("%+v, %d accounts", g, gate.Stats().Clients)
	}
	conn.Close()
	eventually(t, "the others' accounts closed", func() bool { return gate.Stats().Clients == 1 })
	if g := grant(other, 1, 3); g.Epoch != a.Epoch {
		t.Errorf("the account did not outlive one of its connections: %+v", g)
	}
	other.Close()
	eventually(t, "all accounts closed", func() bool { return gate.Stats().Clients == 0 })
	if g := grant(dial(t, s.addr), 1, 3); g.Epoch == a.Epoch {
		t.Error("a fresh account begins its numbers anew in an old epoch")
	}
}

// Nobody gains by making up names.
func TestNamesCannotBeMinted(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn := dial(t, s.addr)
	for id := range uint64(100) {
		call1(withTags(within(t), wire.Tags{Credits: true, Demand: 1000, Client: id + 1}), conn, "x")
	}
	if got := gate.Stats().Clients; got != live.MaxBindings {
		t.Errorf("%d accounts on one connection, expected %d", got, live.MaxBindings)
	}
	for i := range uint64(20) {
		conn := dial(t, s.addr)
		for id := range uint64(20) {
			call1(withTags(within(t), wire.Tags{Credits: true, Client: 1000 + i*20 + id}), conn, "x")
		}
	}
	if got := gate.Stats().Clients; got > live.MaxIdentities+21 {
		t.Errorf("%d accounts of one address with 21 connections", got)
	}
}

// A control stream sends the grants of the client that its messages name, and of
// one client there is one.
func TestControlStreamsOfOneConnection(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn := dial(t, s.addr)
	open := func(ctx context.Context) grpc.ClientStream {
		ss, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
		if err != nil {
			t.Fatal(err)
		}
		return ss
	}
	say := func(ss grpc.ClientStream, id uint64) error {
		msg := wire.Tags{Credits: true, Demand: 1, Client: id}.Append(nil)
		if err := ss.SendMsg(wrapperspb.Bytes(msg)); err != nil {
			return err
		}
		var m wrapperspb.BytesValue
		return ss.RecvMsg(&m)
	}
	one, two := open(within(t)), open(within(t))
	if err := say(one, 1); err != nil {
		t.Errorf("the first client: %v", err)
	}
	if err := say(two, 2); err != nil {
		t.Errorf("the second client on the connection: %v", err)
	}
	if err := say(open(within(t)), 1); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second stream of one client: %v", err)
	}
	one.CloseSend()
	eventually(t, "the stream to end", func() bool { return one.RecvMsg(new(wrapperspb.BytesValue)) != nil })
	eventually(t, "room for another stream", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return status.Code(say(open(ctx), 1)) != codes.AlreadyExists // there is no news to receive
	})
	conn.Close()
	eventually(t, "all accounts closed", func() bool { return gate.Stats().Clients == 0 })
}

// Who shows a verified certificate answers for its clients wherever it comes
// from; one that nobody verified is worth nothing.
func TestPeerKey(t *testing.T) {
	at := func(ip string, cert string, verified bool) string {
		leaf := &x509.Certificate{Raw: []byte(cert)}
		info := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}
		if verified {
			info.State.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
		return peerKey(&peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}, AuthInfo: info})
	}
	if at("10.0.0.1", "a", true) != at("10.0.0.2", "a", true) || at("10.0.0.1", "a", true) == at("10.0.0.1", "b", true) {
		t.Error("a verified certificate is the peer")
	}
	if at("10.0.0.1", "a", false) != at("10.0.0.1", "b", false) || at("10.0.0.1", "a", false) == at("10.0.0.2", "a", false) {
		t.Error("without a verified one the address is")
	}
	if peerKey(nil) != "" || peerKey(&peer.Peer{}) != "" {
		t.Error("nobody")
	}
}
