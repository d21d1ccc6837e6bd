package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
)

// evil is an answer that nobody asked for.
const evil = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!"

// answers runs an upstream that answers a request with what its query says as "say", and then closes the connection if
// that ends in a byte 0, and any other request with its path.
func answers(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); await.All(t, &all, "the upstream to end") })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				for br := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					query := r.URL.Query()
					if query.Has("say") {
						said, closes := strings.CutSuffix(query.Get("say"), "\x00")
						if _, err := io.WriteString(c, said); err != nil || closes {
							return
						}
						continue
					}
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.URL.Path), r.URL.Path)
				}
			})
		}
	})
	return l.Addr().String()
}

// Whatever an upstream answers, a client gets nothing of what is no part of the answer to its request, the next requests are
// answered by their own answers, and no slot is lost.
func TestMisbehavingUpstreams(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	chunked := func(body string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body }
	with := func(field string) string {
		return "HTTP/1.1 200 OK\r\n" + field + "\r\nContent-Length: 2\r\n\r\nok\x00"
	}
	says := map[string]string{ // and what the client gets: a body, a status, or empty for an answer that breaks off
		ok:                             "ok",
		ok + strings.Repeat(evil, 200): "ok", // more than is read at once
		ok + evil:                      "ok",
		"HTTP/1.1 204 No\r\nContent-Length: 43\r\n\r\n" + evil:                                                   "204",
		"HTTP/1.1 304 No\r\nContent-Length: 43\r\n\r\n" + evil:                                                   "304",
		"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n2b\r\n" + evil:                                     "304",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil:                                                  "ok",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" + evil:                             "ok",
		"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + evil:                             "502",
		"HTTP/1.1 103 Early\r\nContent-Length: 43\r\n\r\n" + ok:                                                  "ok",
		"HTTP/1.1 100 Continue\r\n\r\n" + ok:                                                                     "ok",
		strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 100) + ok:                                                   "ok",
		"HTTP/1.1 200 OK\r\nContent-Length: 43\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil: "ok",
		chunked("2\r\nok\r\n0\r\n\r\n" + evil):                                                                   "ok",
		chunked("2;x=" + strings.Repeat("y", 100) + "\r\nok\r\n0\r\n\r\n"):                                       "ok",
		chunked("2\r\nok\r\n0\r\na b: c\r\n\r\n"):                                                                "ok",
		chunked("2\r\nokEVIL!\r\n0\r\n\r\n"):                                                                     "",
		chunked("FFFFFFFFFFFFFFFFF\r\nok\r\n0\r\n\r\n"):                                                          "502",
		chunked("2;\nok\r\n0\r\n\r\n"):                                                                           "502",
		chunked("2\r\nok\r\n\x00"):                                                                               "",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok\x00":                                                     "",
		with("Content-Length: 3"):                                                                                "502",
		with("Content-Length: +2"):                                                                               "502",
		with("Transfer-Encoding: gzip, chunked"):                                                                 "502",
		with("Transfer-Encoding: \x0bchunked"):                                                                   "502",
		with("X: a\rSet-Cookie: evil"):                                                                           "502",
		with("X: a\x01"):                                                                                         "502",
		with(" X: a"):                                                                                            "502",
		with("X: " + strings.Repeat("x", 16<<10)):                                                                "502",
		"EVIL!\x00":                    "502",
		"HTTP/1.1 2000 OK\r\n\r\n\x00": "502",
		"HTTP/1.1 099 OK\r\n\r\n\x00":  "502",
		"\x00":                         "502",
	}
	for cut := range len(ok) {
		says[ok[:cut]+"\x00"] = "502"
		if strings.Contains(ok[:cut], "\r\n\r\n") {
			says[ok[:cut]+"\x00"] = ""
		}
	}
	cfg := to("http://" + answers(t))
	cfg.Health.Failures, cfg.Limits.Retries, cfg.Limits.AnswerHeader = -1, -1, 8<<10
	n := 0
	for _, version := range []int{1, 2} {
		// After answers that break off, connections are not kept for a while: those that do not come first.
		for _, breaks := range []bool{false, true} {
			p := start(t, cfg)
			c := client(t, version, nil)
			for say, want := range says {
				if breaks != (want == "" || want == "502") {
					continue
				}
				resp, err := c.Get(p.url + "/?say=" + url.QueryEscape(say))
				got := ""
				if err == nil {
					var text []byte
					text, err = io.ReadAll(resp.Body)
					resp.Body.Close()
					switch {
					case err != nil:
					case resp.StatusCode == http.StatusOK:
						got = string(text)
					default:
						got = fmt.Sprint(resp.StatusCode)
					}
				}
				if got != want || (err == nil) != (want != "") {
					t.Errorf("HTTP/%d, %.80q: %q, %v, expected %q", version, say, got, err, want)
				}
				for range 2 {
					n++
					path := fmt.Sprint("/next/", n)
					if _, text := get(t, c, p.url+path); text != path {
						t.Fatalf("HTTP/%d, after %.80q: %q, expected %q", version, say, text, path)
					}
				}
			}
			eventually(t, "all slots to be free", func() bool {
				s := p.state.Load().upstreams[0].gate.Stats()
				return s.Running+s.Waiting == 0
			})
			if text := p.log.String(); strings.Contains(text, "panic") {
				t.Error(text)
			}
		}
	}
}

// An answer whose body is malformed from its first byte on is one failure.
func TestMalformedBodyIsOneFailure(t *testing.T) {
	cfg := to("http://" + answers(t))
	cfg.Limits.Retries = -1
	p := start(t, cfg)
	say := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\nok\r\n0\r\n\r\n"
	if resp, _ := get(t, client(t, 1, nil), p.url+"/?say="+url.QueryEscape(say)); resp.StatusCode != http.StatusBadGateway {
		t.Fatal(resp.Status)
	}
	u := p.state.Load().upstreams[0]
	if kinds := u.failed.all(allKinds[:]...); kinds["truncated"] != 1 || kinds["reset"] != 0 {
		t.Errorf("%v, expected one truncated", kinds)
	}
}
