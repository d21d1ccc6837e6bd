package backplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A node shows the certificate that its files hold now, to nodes that connect to it and to those that it connects to.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var authority *x509.Certificate
	var signs *ecdsa.PrivateKey
	sign := func(name string) (der []byte, key *ecdsa.PrivateKey) {
		t.Helper()
		key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		parent, by := authority, signs
		if parent == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
			parent, by = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	der, key := sign("authority")
	ca := file("ca", "CERTIFICATE", der)
	authority, _ = x509.ParseCertificate(der)
	signs = key
	node := func(name, as string) Config {
		t.Helper()
		der, key := sign(as)
		pkcs, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return Config{CA: ca, Cert: file(name+".cert", "CERTIFICATE", der), Key: file(name+".key", "PRIVATE KEY", pkcs)}
	}
	var planes [2]*Plane
	for i, name := range []string{"one", "two"} {
		planes[i] = New(node(name, name+" before"), slog.New(slog.DiscardHandler))
		if err := planes[i].lock(); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(to, from *Plane) (server, client string) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var accepts *tls.Conn
		failed := make(chan error, 1)
		go func() {
			nc, err := l.Accept()
			if err == nil {
				accepts = tls.Server(nc, to.secure.Clone())
				err = accepts.HandshakeContext(t.Context())
			}
			failed <- err
		}()
		dials, err := tls.Dial("tcp", l.Addr().String(), from.secure.Clone())
		if err != nil {
			t.Fatal(err)
		}
		defer dials.Close()
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		defer accepts.Close()
		return dials.ConnectionState().PeerCertificates[0].Subject.CommonName, accepts.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if server, client := shown(planes[0], planes[1]); server != "one before" || client != "two before" {
		t.Fatalf("the nodes show %q and %q", server, client)
	}
	for i, name := range []string{"one", "two"} {
		node(name, name+" now")
		planes[i].Look(slog.New(slog.DiscardHandler))
	}
	if server, client := shown(planes[0], planes[1]); server != "one now" || client != "two now" {
		t.Errorf("after a change the nodes show %q and %q", server, client)
	}
}
