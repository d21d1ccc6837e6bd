package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// line2 is a header of version 2.
func line2(command, family byte, addresses []byte) string {
	head := append([]byte(signature), 0x20|command, family)
	head = binary.BigEndian.AppendUint16(head, uint16(len(addresses)))
	return string(append(head, addresses...))
}

var (
	four = []byte{192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 0x04, 0x01, 0xbb}
	six  = append(append(append(netip.MustParseAddr("2001:db8::1").AsSlice(), netip.MustParseAddr("2001:db8::2").AsSlice()...), 0xdc, 0x04), 0x01, 0xbb)
)

// What balancers say, and what is none of it.
func TestProxyLines(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"version 1", "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n", "192.0.2.1:56324"},
		{"version 1, IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n", "[2001:db8::1]:56324"},
		{"version 1, unknown", "PROXY UNKNOWN\r\n", ""},
		{"version 1, unknown with words", "PROXY UNKNOWN ffff::1 x y z\r\n", ""},
		{"version 2", line2(1, 0x11, four), "192.0.2.1:56324"},
		{"version 2, IPv6", line2(1, 0x21, six), "[2001:db8::1]:56324"},
		{"version 2, IPv4 in IPv6", line2(1, 0x21, append(append(netip.MustParseAddr("::ffff:192.0.2.1").AsSlice(), six[16:32]...), six[32:]...)), "192.0.2.1:56324"},
		{"version 2, its own", line2(0, 0x11, four), ""},
		{"version 2, a socket", line2(1, 0x31, make([]byte, 216)), ""},
		{"version 2, extensions", line2(1, 0x11, append(append([]byte{}, four...), 0x01, 0, 1, 'x')), "192.0.2.1:56324"},
		{"nothing", "", "error"},
		{"a request", "GET / HTTP/1.1\r\n", "error"},
		{"another P", "POST / HTTP/1.1\r\n", "error"},
		{"no end", "PROXY TCP4 192.0.2.1", "error"},
		{"no carriage return", "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\n", "error"},
		{"too long", "PROXY UNKNOWN " + strings.Repeat("x", 200) + "\r\n", "error"},
		{"wrong family", "PROXY TCP6 192.0.2.1 198.51.100.7 56324 443\r\n", "error"},
		{"two families", "PROXY TCP4 192.0.2.1 2001:db8::2 56324 443\r\n", "error"},
		{"no port", "PROXY TCP4 192.0.2.1 198.51.100.7 65536 443\r\n", "error"},
		{"a zone", "PROXY TCP6 fe80::1%eth0 fe80::2 1 2\r\n", "error"},
		{"too few words", "PROXY TCP4 192.0.2.1 198.51.100.7 56324\r\n", "error"},
		{"version 3", strings.Replace(line2(1, 0x11, four), "\x21", "\x31", 1), "error"},
		{"command 2", line2(2, 0x11, four), "error"},
		{"short addresses", line2(1, 0x11, four[:11]), "error"},
		{"cut off", line2(1, 0x21, six)[:40], "error"},
		{"too much", line2(1, 0x11, make([]byte, mostAddresses+1)), "error"},
	} {
		const rest = "what follows"
		text := c.text
		if c.want != "error" {
			text += rest
		}
		r := bufio.NewReader(strings.NewReader(text))
		from, err := readProxyLine(r)
		got := ""
		switch {
		case err != nil:
			got = "error"
		case from.IsValid():
			got = from.String()
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), expected %q", c.name, got, err, c.want)
			continue
		}
		if err != nil {
			continue
		}
		if left, _ := io.ReadAll(r); string(left) != rest {
			t.Errorf("%s: %q is left, expected %q", c.name, left, rest)
		}
	}
}

// Whatever comes, the decoder ends, takes no more than a header, and gives a plain address.
func FuzzProxyLine(f *testing.F) {
	for _, seed := range []string{"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\nGET", "PROXY UNKNOWN\r\n", line2(1, 0x11, four), line2(1, 0x21, six), line2(0, 0, nil)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(data), 512)
		from, err := readProxyLine(r)
		if err != nil && from.IsValid() {
			t.Errorf("an address and an error: %v, %v", from, err)
		}
		left, _ := io.ReadAll(r)
		if used := len(data) - len(left); used > 16+mostAddresses {
			t.Errorf("%d bytes were taken", used)
		}
		if from.Addr().Is4In6() || from.Addr().Zone() != "" {
			t.Errorf("the address is %v", from)
		}
	})
}

// Requests of a balancer's connections are those of the clients that it names; what comes
// from elsewhere is taken as it is, and a balancer that says nothing holds up nobody.
func TestProxyProtocol(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Forwarded-For")) }))
	ca := newAuthority(t, "authority")
	cert, key := ca.issue("front")
	cfg := to("http://" + addr)
	own := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	cfg.Listen = []Listener{{Address: "127.0.0.1:0", Balancers: own}, {Address: "127.0.0.1:0", Balancers: own, Cert: cert, Key: key}}
	cfg.Limits.HeaderTimeout = 30 * time.Second
	p := start(t, cfg)
	front, _ := p.Addrs()
	send := func(c net.Conn, header string) string {
		_, _ = io.WriteString(c, header)
		if c.RemoteAddr().String() == front[1].String() {
			c = tls.Client(c, &tls.Config{RootCAs: ca.pool(), ServerName: "localhost"})
		}
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return "closed"
		}
		return read(t, resp)
	}
	silent := dialFrom(t, "127.0.0.1", front[0].String())
	for _, c := range []struct {
		from, header, want string
	}{
		{"127.0.0.1", "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n", "192.0.2.1"},
		{"127.0.0.1", line2(1, 0x21, six), "2001:db8::1"},
		{"127.0.0.1", line2(0, 0, nil), "127.0.0.1"},
		{"127.0.0.1", "", "closed"},
		{"127.0.0.2", "", "127.0.0.2"},
	} {
		for i := range front {
			if got := send(dialFrom(t, c.from, front[i].String()), c.header); got != c.want {
				t.Errorf("listener %d, %q from %s: the client is %s, expected %s", i, c.header, c.from, got, c.want)
			}
		}
	}
	// Who is no balancer cannot say who he is.
	c := dialFrom(t, "127.0.0.2", front[0].String())
	fmt.Fprintf(c, "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 400 {
		t.Errorf("a header from a stranger: %v, %v, expected 400", resp, err)
	}
	if got := metrics(t, p); !strings.Contains(got, `spillgate_client_errors_total{kind="proxy_protocol"} 2`) {
		t.Errorf("connections without a header are not in the metrics:\n%s", got)
	}
	p.stop()
	if err := p.wait(t); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection is open although the proxy has stopped")
	}
}

// A listener with several certificates shows that of the name which the client asks for.
func TestCertificatesByName(t *testing.T) {
	_, addr := serve(t, named("x"))
	ca := newAuthority(t, "authority")
	cert, key := ca.issueFor("first", "first.example")
	cert2, key2 := ca.issueFor("second", "second.example", "*.second.example")
	cfg := to("http://" + addr)
	cfg.Listen = []Listener{{Address: "127.0.0.1:0", Cert: cert, Key: key, More: []KeyPair{{Cert: cert2, Key: key2}}}}
	p := start(t, cfg)
	for name, want := range map[string]string{"first.example": "first", "second.example": "second", "a.second.example": "second", "other.example": "first", "": "first"} {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: await.Patience}, "tcp", p.addr, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("asked for %q: the certificate is %s, expected %s", name, got, want)
		}
		c.Close()
	}
	var got []string
	Listener{More: []KeyPair{{}, {Cert: "a"}}, Address: "unix:/x", Balancers: []netip.Prefix{{}}}.checkMore(func(field, _, _ string) { got = append(got, field) }, "listen[0]")
	if want := "listen[0].certs[0].cert listen[0].certs[1].key listen[0].certs listen[0].proxy_protocol[0] listen[0].proxy_protocol"; strings.Join(got, " ") != want {
		t.Errorf("mistakes in %v, expected %s", got, want)
	}
}

// closesFirst is a connection whose listener is closed while its first deadline is set.
type closesFirst struct {
	net.Conn
	b     *greeted
	asked atomic.Bool
}

func (c *closesFirst) SetReadDeadline(t time.Time) error {
	if !c.asked.Swap(true) {
		c.b.end()
		time.Sleep(20 * time.Millisecond) // in which whatever waits for the end acts
	}
	return c.Conn.SetReadDeadline(t)
}

// A listener that is closed waits for no connection that has said nothing yet, whenever that
// came.
func TestBalancersThatSayNothingHoldUpNoEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{log: discard()}
	b := p.behind(l, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, time.Hour).(*greeted)
	near, far := net.Pipe()
	defer far.Close()
	heard := make(chan struct{})
	go func() { defer close(heard); b.hear(b.ending, &closesFirst{Conn: near, b: b}) }()
	await.Value(t, heard, "the connection to be given up")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
