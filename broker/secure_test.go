package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats.go"
	"github.com/nsqio/go-nsq"
	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/access"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

// pem returns the authority's own certificate.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// sign returns a certificate of a name and its key, in PEM.
func (a *authority) sign(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tpl, a.cert, k.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, _ := x509.MarshalPKCS8PrivateKey(k)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs})
}

func (a *authority) client(t *testing.T, name string) *tls.Config {
	t.Helper()
	c := &tls.Config{RootCAs: a.pool}
	if name != "" {
		pair, err := tls.X509KeyPair(a.sign(t, name))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// serve runs a broker, whose addresses it returns.
func serve(t *testing.T, cfg Config) (*Broker, []string) {
	t.Helper()
	b, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	at, _ := b.Addresses()
	return b, at
}

func options(addr, name, password string, secure *tls.Config) *mqtt.ClientOptions {
	o := mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID("c").SetAutoReconnect(false).SetUsername(name).SetPassword(password).SetConnectTimeout(patience)
	if secure != nil {
		o.Servers = nil
		o.AddBroker("ssl://" + addr).SetTLSConfig(secure)
	}
	return o
}

// connect connects a client, and disconnects it with the test.
func connect(t *testing.T, o *mqtt.ClientOptions) (mqtt.Client, error) {
	t.Helper()
	c := mqtt.NewClient(o)
	tok := c.Connect()
	if !tok.WaitTimeout(patience) {
		t.Fatal("no answer to CONNECT")
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c, tok.Error()
}

func producer(t *testing.T, addr string, secure *tls.Config) *nsq.Producer {
	t.Helper()
	c := nsq.NewConfig()
	if secure != nil {
		c.TlsV1, c.TlsConfig = true, secure
		secure.ServerName = "127.0.0.1"
	}
	p, err := nsq.NewProducer(addr, c)
	if err != nil {
		t.Fatal(err)
	}
	p.SetLoggerLevel(nsq.LogLevelMax)
	t.Cleanup(p.Stop)
	return p
}

// Every protocol over TLS, with client certificates that say who the client is, and a
// certificate of the server that is replaced meanwhile.
func TestTLS(t *testing.T) {
	dir, a := t.TempDir(), newAuthority(t)
	cert, key := a.sign(t, "first")
	files := TLS{Cert: write(t, filepath.Join(dir, "cert"), cert), Key: write(t, filepath.Join(dir, "key"), key),
		ClientCA: write(t, filepath.Join(dir, "ca"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))}
	b, at := serve(t, Config{Listen: []string{"mqtt+tls://127.0.0.1:0", "nats+tls://127.0.0.1:0", "nsq+tls://127.0.0.1:0"}, TLS: files,
		Access: access.Config{Users: []access.User{{Name: "device", Certificate: true, Publish: []string{"device/#"}}}}})
	got := make(chan string, 10)
	sub, err := connect(t, options(at[0], "", "", a.client(t, "device")))
	if err != nil {
		t.Fatal(err)
	}
	if tok := sub.Subscribe("#", 1, func(_ mqtt.Client, m mqtt.Message) { got <- m.Topic() + "=" + string(m.Payload()) }); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	nc, err := nats.Connect("tls://"+at[1], nats.NoReconnect(), nats.Timeout(patience), nats.Secure(a.client(t, "device")))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.Publish("other", []byte("x"))
	_ = nc.Publish("device.1", []byte("y"))
	if m := <-got; m != "device/1=y" {
		t.Errorf("got %s", m)
	}
	p := producer(t, at[2], a.client(t, "device"))
	if err := p.Publish("device.2", []byte("z")); err != nil {
		t.Errorf("NSQ: %v", err)
	}
	if m := <-got; m != "device/2=z" {
		t.Errorf("got %s", m)
	}
	for _, name := range []string{"", "stranger"} {
		if err := producer(t, at[2], a.client(t, name)).Publish("device.2", []byte("z")); err == nil {
			t.Errorf("an NSQ client with the certificate %q is let in", name)
		}
		if _, err := connect(t, options(at[0], "", "", a.client(t, name))); err == nil {
			t.Errorf("a client with the certificate %q is let in", name)
		}
		if nc, err := nats.Connect("tls://"+at[1], nats.NoReconnect(), nats.Timeout(patience), nats.Secure(a.client(t, name))); err == nil {
			nc.Close()
			t.Errorf("a NATS client with the certificate %q is let in", name)
		}
	}
	shown := func() string {
		c, err := tls.Dial("tcp", at[0], a.client(t, "device"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	cert, key = a.sign(t, "second")
	write(t, files.Cert, cert)
	b.look() // half of a pair
	if name := shown(); name != "first" {
		t.Errorf("with half of a pair the certificate is that of %s", name)
	}
	write(t, files.Key, key)
	if _, err := b.Reload(b.cfg); err != nil {
		t.Error(err)
	}
	if name := shown(); name != "second" {
		t.Errorf("after a change the certificate is that of %s", name)
	}
}

// Users come and go while the broker runs.
func TestUsersChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	write(t, file, []byte("ann:"+hash(t, "a")+"\nbob:"+hash(t, "b")+"\n"))
	cfg := Config{Listen: []string{"127.0.0.1:0", "nats://127.0.0.1:0"}, Access: access.Config{Passwords: file, Users: []access.User{{Name: "*"}}}}
	b, at := serve(t, cfg)
	lost := make(chan error, 1)
	ann, err := connect(t, options(at[0], "ann", "a", nil).SetConnectionLostHandler(func(_ mqtt.Client, err error) { lost <- err }))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	nc, err := nats.Connect("nats://"+at[1], nats.NoReconnect(), nats.Timeout(patience), nats.UserInfo("ann", "a"), nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	bob, err := connect(t, options(at[0], "bob", "b", nil).SetClientID("bob"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, options(at[0], "", "", nil)); err == nil {
		t.Error("an anonymous client is let in although there are users")
	}
	write(t, file, []byte("ann:"+hash(t, "new")+"\nbob:"+hash(t, "b")+"\n")) // bob's salt is another one
	b.look()
	<-lost
	<-gone
	await(t, "clients whose password changed to be disconnected", func() bool { return !ann.IsConnected() && !bob.IsConnected() })
	if _, err := connect(t, options(at[0], "ann", "a", nil)); err == nil {
		t.Error("the old password is right")
	}
	if _, err := connect(t, options(at[0], "ann", "new", nil)); err != nil {
		t.Errorf("the new password: %v", err)
	}
	write(t, file, []byte("ann:plain\n"))
	b.look()
	if _, err := connect(t, options(at[0], "ann", "new", nil).SetClientID("again")); err != nil {
		t.Errorf("after a file that does not fit: %v", err)
	}
	next := b.cfg
	next.Access.Anonymous.From = "loopback"
	next.Access.Passwords = file + "-missing"
	if _, err := b.Reload(next); err == nil || !strings.Contains(err.Error(), "passwords") {
		t.Errorf("a file that is not there: %v", err)
	}
	next.Access = access.Config{}
	if _, err := b.Reload(next); err != nil {
		t.Error(err)
	}
	if _, err := connect(t, options(at[0], "", "", nil).SetClientID("free")); err != nil {
		t.Errorf("without users: %v", err)
	}
}

// A user that is removed while the password of one of its clients is compared, which takes long, is not let in, or is disconnected at once.
func TestUserGoesDuringLogin(t *testing.T) {
	slow, err := bcrypt.GenerateFromPassword([]byte("secret"), 11)
	if err != nil {
		t.Fatal(err)
	}
	nsqAuth := "  V2IDENTIFY\n\x00\x00\x00\x02{}AUTH\n\x00\x00\x00\x0aann:secret"
	for listen, hello := range map[string]string{"127.0.0.1:0": "\x10\x1c\x00\x04MQTT\x04\xc2\x00\x3c\x00\x03ann\x00\x03ann\x00\x06secret",
		"nats://127.0.0.1:0": "CONNECT {\"user\":\"ann\",\"pass\":\"secret\"}\r\nPING\r\n", "nsq://127.0.0.1:0": nsqAuth} {
		cfg := Config{Listen: []string{listen}, Access: access.Config{Users: []access.User{{Name: "ann", Password: string(slow)}, {Name: "bob", Password: string(slow)}}}}
		b, at := serve(t, cfg)
		nc, err := net.Dial("tcp", at[0])
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write([]byte(hello)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // whenever it is: the client is let in before, and disconnected, or not at all
		next := b.cfg
		next.Access = access.Config{Users: cfg.Access.Users[1:]}
		if _, err := b.Reload(next); err != nil {
			t.Fatal(err)
		}
		_ = nc.SetReadDeadline(time.Now().Add(patience / 2)) // a busy machine compares for seconds; no protocol ends a silent connection before
		if answer, err := io.ReadAll(nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a client whose user is gone stays, after %q", listen, answer)
		}
	}
}

// What one protocol publishes the others receive.
func TestProtocolsTogether(t *testing.T) {
	_, at := serve(t, Config{Listen: []string{"127.0.0.1:0", "nats://127.0.0.1:0", "nsq://127.0.0.1:0"}})
	c, err := connect(t, options(at[0], "", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan mqtt.Message, 10)
	if tok := c.Subscribe("plant/#", 1, func(_ mqtt.Client, m mqtt.Message) { got <- m }); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	nc, err := nats.Connect("nats://"+at[1], nats.NoReconnect(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("plant.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if tok := c.Publish("plant/v1.2/alarm", 1, false, "hot"); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	m, err := sub.NextMsg(patience)
	if err != nil || m.Subject != "plant.v1/2.alarm" || string(m.Data) != "hot" {
		t.Errorf("from MQTT: %+v, %v", m, err)
	}
	if m := <-got; m.Topic() != "plant/v1.2/alarm" {
		t.Errorf("got %s", m.Topic())
	}
	if err := nc.Publish("plant.1", []byte("ok")); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m.Topic() != "plant/1" || string(m.Payload()) != "ok" {
		t.Errorf("from NATS: %s=%s", m.Topic(), m.Payload())
	}
	if err := producer(t, at[2], nil).Publish("plant.2", []byte("nsq")); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m.Topic() != "plant/2" || string(m.Payload()) != "nsq" {
		t.Errorf("from NSQ: %s=%s", m.Topic(), m.Payload())
	}
	answered := make(chan string, 1)
	if tok := c.Subscribe("ask", 0, func(c mqtt.Client, m mqtt.Message) { answered <- string(m.Payload()) }); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	if err := nc.PublishRequest("ask", "reply.here", []byte("?")); err != nil {
		t.Fatal(err)
	}
	if m := <-answered; m != "?" {
		t.Errorf("a request over NATS is %q over MQTT", m)
	}
}

func TestCheckSecure(t *testing.T) {
	for text, want := range map[string]string{
		"amqp://127.0.0.1:1":    "listen[0]",
		"nats://here":           "listen[0]",
		"0.0.0.0:1":             "listen[0]",
		"mqtt+tls://[::1]:1":    "tls.cert tls.key",
		"nats+tls://10.0.0.1:1": "listen[0] tls.cert tls.key",
		"localhost:1":           "",
	} {
		var fields []string
		for _, m := range (Config{Listen: []string{text}}).Check() {
			fields = append(fields, m.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s: mistakes in %q, want %q", text, got, want)
		}
	}
	c := Config{TLS: TLS{Cert: "a", Key: "b"}, Access: access.Config{Passwords: "missing", Users: []access.User{{Name: "x", Publish: []string{"#/a"}}}}}
	var fields []string
	for _, m := range append(c.Check(), c.CheckFiles()...) {
		fields = append(fields, m.Field)
	}
	if got, want := strings.Join(fields, " "), "tls.cert users[0].publish[0] tls.cert passwords"; got != want {
		t.Errorf("mistakes in %q, want %q", got, want)
	}
}
