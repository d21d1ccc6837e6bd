package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// running is a proxy that serves.
type running struct {
	*Proxy
	url, admin string
	addr       string
	log        *safeBuffer
	stop       context.CancelFunc // begins the drain
	done       chan error         // what Run returned
}

// start runs a proxy until the test ends. What cfg leaves out of the required
// fields is filled in.
func start(t testing.TB, cfg Config) *running {
	t.Helper()
	return startWith(t, cfg, func(*Proxy) {})
}

// startWith is start with a change to the proxy before it runs.
func startWith(t testing.TB, cfg Config, change func(*Proxy)) *running {
	t.Helper()
	watch(t)
	if cfg.Objective == 0 {
		cfg.Objective = 10 * time.Second
	}
	if cfg.Listen == nil {
		cfg.Listen = []Listener{{Address: "127.0.0.1:0"}}
	}
	if cfg.Admin == "" {
		cfg.Admin = "127.0.0.1:0"
	}
	out := &safeBuffer{}
	p, err := New(cfg, slog.New(slog.NewTextHandler(out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	change(p)
	if err := p.Listen(); err != nil {
		t.Fatal(err)
	}
	front, admin := p.Addrs()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Proxy: p, addr: front[0].String(), admin: "http://" + admin.String(), log: out, stop: cancel, done: make(chan error, 1)}
	r.url = "http://" + r.addr
	if cfg.Listen[0].Cert != "" {
		r.url = "https://" + r.addr
	}
	go func() { r.done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-r.done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the proxy did not stop")
		}
	})
	eventually(t, "the proxy to serve", func() bool { return p.phase.Load() == serving })
	return r
}

// longest is more than any test here takes, many times over: 15 s on two quiet processors, and ten times that where 30
// processes want them.
const longest = 5 * time.Minute

// watch ends the program, with its goroutines' stacks, if a test does not end: one that waits for what never comes
// would else wait until the package's time is over, and take that of all others.
func watch(t testing.TB) {
	name := t.Name()
	hangs := time.AfterFunc(longest, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s still runs after %v", name, longest))
	})
	t.Cleanup(func() { hangs.Stop() })
}

// wait returns what Run returned, and leaves it for the test's end.
func (r *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(time.Minute):
		t.Fatal("the proxy did not stop")
		return nil
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// serve starts an upstream for HTTP/1.1 and cleartext HTTP/2 and returns its
// host:port.
func serve(t testing.TB, h http.Handler) (s *http.Server, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	httpgate.Track(s)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); await.Value(t, done, "the server to stop") })
	return s, l.Addr().String()
}

// to makes a configuration with these upstreams.
func to(urls ...string) Config {
	var c Config
	for _, u := range urls {
		c.Upstreams = append(c.Upstreams, Upstream{URL: u})
	}
	return c
}

// client speaks one version of HTTP, over TLS if tlsConfig is not nil.
func client(t testing.TB, major int, tlsConfig *tls.Config) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, TLSClientConfig: tlsConfig}
	tr.Protocols.SetHTTP1(major == 1)
	tr.Protocols.SetUnencryptedHTTP2(major == 2 && tlsConfig == nil)
	tr.Protocols.SetHTTP2(major == 2 && tlsConfig != nil)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 60 * time.Second}
}

// get returns the response after its body was read, and its body.
func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return resp, read(t, resp)
}

func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// metrics returns what Prometheus would read.
func metrics(t testing.TB, p *running) string {
	t.Helper()
	_, text := get(t, client(t, 1, nil), p.admin+PathMetrics)
	return text
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// says waits until the log has all these texts: it is written after what it tells of shows elsewhere.
func says(t testing.TB, p *running, texts ...string) {
	t.Helper()
	for _, text := range texts {
		eventually(t, "the log to say "+text, func() bool { return strings.Contains(p.log.String(), text) })
	}
}

// authority signs certificates for a test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string // file
}

func newAuthority(t testing.TB, name string) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = a.sign(template, nil)
	a.cert, _ = x509.ParseCertificate(der)
	a.pem = a.write(name+".pem", "CERTIFICATE", der)
	return a
}

func (a *authority) sign(template *x509.Certificate, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate and its key and returns their files.
func (a *authority) issue(name string) (cert, key string) { return a.issueFor(name, "localhost") }

// issueFor is issue for some hosts.
func (a *authority) issueFor(name string, hosts ...string) (cert, key string) {
	a.t.Helper()
	der, k := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert)
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".crt", "CERTIFICATE", der), a.write(name+".key", "EC PRIVATE KEY", raw)
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, strings.ReplaceAll(name, " ", "-"))
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
