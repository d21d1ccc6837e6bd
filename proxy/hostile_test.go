package proxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/spillgate/spillgate/classify"
)

// What strangers invent, such as hosts, methods, paths, agents, workflows and traces, makes no
// metrics: a thousand of each leave as many series as a few hundred did.
func TestStrangersMakeNoMetrics(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	cfg := byTenant("http://" + addr)
	cfg.Names = 8
	cfg.Rules = append(cfg.Rules, classify.Rule{Match: classify.Match{Path: []string{"/rule/"}}, Set: classify.Set{Workflow: "acme"}})
	cfg.Share, cfg.Slots = Share{Order: LearnedShare}, Slots{Min: 8, Max: 8}
	cfg.Access = Access{Path: t.TempDir() + "/log"}
	cfg.Limits.ClientRequests = 1000
	p := start(t, cfg)
	clients := []*http.Client{client(t, 1, nil), client(t, 2, nil)}
	invent := func(from, to int) {
		for n := from; n < to; n++ {
			r, err := http.NewRequest(fmt.Sprintf("M%d", n), fmt.Sprintf("%s/%d/%d?q=%d", p.url, n%7, n, n), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = fmt.Sprintf("h%d.example", n)
			for name, v := range map[string]string{
				"User-Agent": "agent%d/1", "X-Tenant": "tenant%d", "Baggage": "spillgate.workflow=w%d", "Spillgate": "s%d", "Traceparent": "00-0af7651916cd43dd8448eb21%08x-b7ad6b7169203331-01",
				"X-Forwarded-For": "10.0.0.%d", "X-%d": "%[1]d", "Content-Type": "application/grpc+%d",
			} {
				if n%2 == 1 && name == "Content-Type" {
					continue
				}
				r.Header.Set(strings.ReplaceAll(name, "%d", fmt.Sprint(n)), fmt.Sprintf(v, n))
			}
			resp, err := clients[n%len(clients)].Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
	}
	series := func() (names map[string]bool) {
		names = map[string]bool{}
		for line := range strings.Lines(metrics(t, p)) {
			if !strings.HasPrefix(line, "#") {
				names[line[:strings.LastIndexByte(line, ' ')]] = true
			}
		}
		return names
	}
	invent(0, 300)
	before := series()
	invent(300, 1300)
	var grown []string
	for name := range series() {
		if !before[name] {
			grown = append(grown, name)
		}
	}
	if len(grown) > 20 { // states that come and go
		t.Errorf("%d series were %d: %s …", len(before), len(before)+len(grown), strings.Join(grown[:20], ", "))
	}
	for name := range series() {
		for _, invented := range []string{"1299", "h12", "agent12", "tenant12", "M12"} {
			if strings.Contains(name, `"`+invented) {
				t.Errorf("a stranger's name is in %s", name)
			}
		}
	}
}

// A connection on which no request comes ends in time, however much its client says meanwhile,
// and others are served beside it.
func TestTalkWithoutRequestsEnds(t *testing.T) {
	ca := newAuthority(t, "authority")
	cert, key := ca.issue("server")
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, test := range map[string]struct {
		tls         bool
		first, then func(f *http2.Framer, out *bytes.Buffer)
	}{
		"half of a TLS hello": {tls: true, first: func(_ *http2.Framer, out *bytes.Buffer) {
			out.WriteString("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
		},
			then: func(_ *http2.Framer, out *bytes.Buffer) { out.WriteByte('x') }},
		"a header that does not end": {first: func(_ *http2.Framer, out *bytes.Buffer) { out.WriteString("GET / HTTP/1.1\r\nHost: x\r\n") },
			then: func(_ *http2.Framer, out *bytes.Buffer) { out.WriteString("X: y\r\n") }},
		"CONTINUATION without end": {first: func(f *http2.Framer, _ *bytes.Buffer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82, 0x86, 0x84}})
		}, then: func(f *http2.Framer, _ *bytes.Buffer) { _ = f.WriteContinuation(1, false, nil) }},
		"PING":          {then: func(f *http2.Framer, _ *bytes.Buffer) { _ = f.WritePing(false, [8]byte{}) }},
		"SETTINGS":      {then: func(f *http2.Framer, _ *bytes.Buffer) { _ = f.WriteSettings() }},
		"WINDOW_UPDATE": {then: func(f *http2.Framer, _ *bytes.Buffer) { _ = f.WriteWindowUpdate(0, 1) }},
		"PRIORITY":      {then: func(f *http2.Framer, _ *bytes.Buffer) { _ = f.WritePriority(3, http2.PriorityParam{StreamDep: 5}) }},
		"unknown":       {then: func(f *http2.Framer, _ *bytes.Buffer) { _ = f.WriteRawFrame(0xee, 0, 0, make([]byte, 100)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := to("http://" + addr)
			cfg.Limits.HeaderTimeout, cfg.Limits.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
			if test.tls {
				cfg.Listen = []Listener{{Address: "127.0.0.1:0", Cert: cert, Key: key}}
			}
			p := start(t, cfg)
			var out bytes.Buffer
			f := http2.NewFramer(&out, nil)
			f.AllowIllegalWrites = true
			c := connectTo(t, p.addr)
			if test.first == nil || name == "CONTINUATION without end" {
				out.WriteString(http2.ClientPreface)
				_ = f.WriteSettings()
			}
			if test.first != nil {
				test.first(f, &out)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, c)
			}()
			for talks := true; talks; {
				_, _ = c.Write(out.Bytes()) // of a connection that is closed already
				out.Reset()
				test.then(f, &out)
				select {
				case <-ended:
					talks = false
				case <-time.After(5 * time.Millisecond):
				}
			}
			var trusting *tls.Config
			if test.tls {
				trusting = &tls.Config{RootCAs: ca.pool()}
			}
			if resp, _ := get(t, client(t, 1, trusting), p.url); resp.StatusCode != http.StatusOK {
				t.Errorf("beside it: %d", resp.StatusCode)
			}
		})
	}
}
