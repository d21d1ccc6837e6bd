package grpcgate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A server served without Serve finds ended connections by garbage collection.
func TestConnectionsWithoutServe(t *testing.T) {
	gate := newGate(t, admission.Config{})
	srv := grpc.NewServer(ServerOptions(gate)...)
	RegisterControl(srv)
	srv.RegisterService((&echo{handle: func(_ context.Context, req string) (string, error) { return req, nil }}).desc(), struct{}{})
	lis := listen(t)
	go srv.Serve(lis)
	defer srv.Stop()
	a, _ := dialGated(t, lis.Addr().String(), nil)
	b, _ := dialGated(t, lis.Addr().String(), nil)
	for range 3 {
		warm(t, a)
		warm(t, b)
	}
	runtime.GC()
	if got := gate.Stats().Clients; got != 2 {
		t.Fatalf("%d accounts of 2 clients", got)
	}
	a.Close()
	eventually(t, "the ended connection is found", func() bool {
		runtime.GC()
		return gate.Stats().Clients == 1
	})
	if _, err := call1(within(t), b, "x"); err != nil {
		t.Error(err)
	}
}

// What Serve wraps is still the connection that handlers and grpc expect.
func TestServeKeepsAddresses(t *testing.T) {
	gate := newGate(t, admission.Config{})
	var remote, local net.Addr
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		p, _ := peer.FromContext(ctx)
		remote, local = p.Addr, p.LocalAddr
		return req, nil
	}}, nil, grpc.Creds(insecure.NewCredentials()))
	conn := dial(t, s.addr)
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, ok := remote.(*net.TCPAddr); !ok {
		t.Errorf("the peer's address is a %T", remote)
	}
	if local.String() != s.addr || local.Network() != "tcp" {
		t.Errorf("the local address is %v %v, expected %s", local.Network(), local, s.addr)
	}
}

// Under TLS a connection is still told from others, and its end known at once.
func TestServeTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(cryptorand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	gate := newGate(t, admission.Config{})
	var info credentials.AuthInfo
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		p, _ := peer.FromContext(ctx)
		info = p.AuthInfo
		return req, nil
	}}, nil, grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	conn, err := grpc.NewClient(s.addr, append(DialOptions(), grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	warm(t, conn)
	if _, ok := info.(credentials.TLSInfo); !ok {
		t.Errorf("the peer's auth info is a %T", info)
	}
	if got := gate.Stats().Clients; got != 1 {
		t.Errorf("%d accounts, expected 1", got)
	}
	conn.Close()
	eventually(t, "the account is closed", func() bool { return gate.Stats().Clients == 0 })
}

// Behind net/http a connection cannot be told, so that its clients are plain.
func TestServeHTTP(t *testing.T) {
	gate := newGate(t, admission.Config{})
	var tags wire.Tags
	srv := grpc.NewServer(ServerOptions(gate, trusting...)...)
	defer srv.Stop()
	srv.RegisterService((&echo{handle: func(ctx context.Context, req string) (string, error) {
		tags = live.TagsFrom(ctx)
		return req, nil
	}}).desc(), struct{}{})
	lis := listen(t)
	web := &http.Server{Handler: srv, Protocols: new(http.Protocols)}
	web.Protocols.SetUnencryptedHTTP2(true)
	go web.Serve(lis)
	defer web.Close()
	conn, c := dialGated(t, lis.Addr().String(), nil)
	for range 5 {
		if _, err := call1(live.WithTags(within(t), wire.Tags{Workflow: "w"}), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if tags.Workflow != "w" {
		t.Errorf("%+v", tags)
	}
	if st := gate.Stats(); st.Clients != 0 || st.Served[work.Done] != 5 {
		t.Errorf("%+v", st)
	}
	gate.Drain()
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	eventually(t, "all returned", settled(c, conn, gate))
}
