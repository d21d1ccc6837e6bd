package proxy

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// named answers with its name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
}

// Requests go to the first group that matches their host and path, however they write it,
// and to the other upstreams where none does.
func TestGroupsByHostAndPath(t *testing.T) {
	urls := map[string]string{}
	for _, name := range []string{"rest", "reports", "shop"} {
		_, addr := serve(t, named(name))
		urls[name] = "http://" + addr
	}
	cfg := to(urls["rest"])
	cfg.Groups = []Group{
		{Name: "reports", Paths: []string{"/reports/"}, Objective: 5 * time.Second, Upstreams: []Upstream{{URL: urls["reports"]}}},
		{Name: "shop", Hosts: []string{"*.shop.example"}, Upstreams: []Upstream{{URL: urls["shop"]}}},
	}
	p := start(t, cfg)
	ask := func(host, path string) (int, string) {
		r, _ := http.NewRequest("GET", p.url+path, nil)
		r.Host = host
		resp, err := client(t, 1, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, read(t, resp)
	}
	for _, c := range []struct{ host, path, want string }{
		{"any.example", "/", "rest"}, {"any.example", "/reports", "rest"}, {"any.example", "/reports/1", "reports"},
		{"a.shop.example", "/", "shop"}, {"A.SHOP.example:80", "/x", "shop"}, {"shop.example", "/", "rest"},
		{"a.shop.example", "/reports/1", "reports"}, {"any.example", "/x/../reports/1", "reports"}, {"any.example", "/reports/%2e%2e/x", "rest"},
	} {
		if status, got := ask(c.host, c.path); status != 200 || got != c.want {
			t.Errorf("%s%s: %d from %q, expected %q", c.host, c.path, status, got, c.want)
		}
	}
	for _, u := range p.state.Load().upstreams {
		want := 10 * time.Second
		if u.group == "reports" {
			want = 5 * time.Second
		}
		if got := u.gate.Stats().Objective; got != want {
			t.Errorf("the gate of group %q has the objective %v, expected %v", u.group, got, want)
		}
	}

	// What explains refusals calls a gate as metrics do.
	for name := range p.gates() {
		if got := metrics(t, p); !strings.Contains(got, `gate="`+name+`"`) {
			t.Errorf("no metric of the gate %s", name)
		}
	}

	// Without upstreams for the rest, nobody serves it.
	next := p.state.Load().cfg
	next.Upstreams = nil
	if ignored, err := p.Reload(next); err != nil || len(ignored) > 0 {
		t.Fatal(ignored, err)
	}
	if status, _ := ask("any.example", "/"); status != 404 {
		t.Errorf("a request that no group is for was answered %d, expected 404", status)
	}
	if status, got := ask("a.shop.example", "/"); status != 200 || got != "shop" {
		t.Errorf("the group that stayed: %d from %q", status, got)
	}
	if got := metrics(t, p); !strings.Contains(got, "spillgate_unrouted_total 1") {
		t.Errorf("the request without a group is not in the metrics:\n%s", got)
	}
}

// What is wrong with a group is said with its place.
func TestMistakesInGroups(t *testing.T) {
	cfg := to("http://127.0.0.1:9000")
	cfg.Objective, cfg.Listen = time.Second, []Listener{{Address: ":0"}}
	cfg.Groups = []Group{
		{Upstreams: []Upstream{{URL: "http://127.0.0.1:9000"}}},
		{Name: "a", Paths: []string{"x"}, Hosts: []string{"a b"}, Objective: time.Microsecond},
		{Name: "a", Paths: []string{"/"}, Slots: Slots{Min: -1}, Health: Health{Pause: -1}, Upstreams: []Upstream{{URL: "unix:rel"}, {URL: "http://x", Resolve: time.Millisecond}, {URL: "unix:/y", Resolve: time.Second}}},
	}
	var got []string
	for _, m := range cfg.Check() {
		got = append(got, m.Field)
	}
	want := "groups[0].name groups[0] groups[0].upstreams[0].name groups[1].path[0] groups[1].host[0] groups[1].slo groups[1].upstreams " +
		"groups[2].name groups[2].upstreams[0].url groups[2].upstreams[1].resolve groups[2].upstreams[2].resolve groups[2].slots.min groups[2].health.pause"
	if strings.Join(got, " ") != want {
		t.Errorf("mistakes in\n%s\nexpected\n%s", strings.Join(got, " "), want)
	}
}

// A group whose upstreams fail costs the others none of theirs.
func TestGroupsAreHealthyApart(t *testing.T) {
	_, well := serve(t, named("well"))
	cfg := to("http://" + well)
	cfg.Groups = []Group{{Name: "down", Paths: []string{"/down/"}, Upstreams: []Upstream{{URL: "http://" + closedPort(t)}, {URL: "http://" + closedPort(t)}}}}
	p := start(t, cfg)
	c := client(t, 1, nil)
	for range 20 {
		if resp, _ := get(t, c, p.url+"/down/"); resp.StatusCode != 502 {
			t.Fatalf("status %d of a group that is down, expected 502", resp.StatusCode)
		}
		if resp, got := get(t, c, p.url); resp.StatusCode != 200 || got != "well" {
			t.Fatalf("status %d from %q", resp.StatusCode, got)
		}
	}
	out := 0
	for _, u := range p.state.Load().members("down") {
		if u.health.isOut.Load() {
			out++
		}
	}
	if out != 1 {
		t.Errorf("%d upstreams of the group are out, expected all but one", out)
	}
}

// Sockets are upstreams and listeners, and one that a process left behind is replaced.
func TestUnixSockets(t *testing.T) {
	for _, scheme := range []string{"unix:", "h2c+unix:"} {
		dir := t.TempDir()
		back, front := filepath.Join(dir, "back"), filepath.Join(dir, "front")
		serveOn(t, unixScheme+back, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Seen", r.Header.Get("X-Forwarded-For"))
			mirror(w, r)
		}))
		leaveSocket(t, front)
		cfg := to(scheme + back)
		trusted := scheme == unixScheme
		cfg.Listen = []Listener{{Address: unixScheme + front, Trusted: trusted, Open: trusted}, {Address: "127.0.0.1:0"}}
		p := start(t, cfg)
		tcp, _ := p.Addrs()
		over := client(t, 1, nil)
		over.Transport.(*http.Transport).DialContext = Upstream{URL: unixScheme + front}.dialer(time.Second)
		for c, url := range map[*http.Client]string{over: "http://any", client(t, 1, nil): "http://" + tcp[1].String()} {
			resp, err := c.Post(url, "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); resp.StatusCode != 200 || got != "hello" {
				t.Errorf("%s by %s: %d, %q", scheme, url, resp.StatusCode, got)
			}
		}
		info, err := os.Stat(front)
		if err != nil {
			t.Fatal(err)
		}
		if perm, want := info.Mode().Perm(), map[bool]fs.FileMode{true: 0o666, false: 0o600}[trusted]; perm != want {
			t.Errorf("the socket has the mode %o, expected %o", perm, want)
		}
		r, _ := http.NewRequest("POST", "http://any", strings.NewReader("x"))
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := over.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if got := resp.Header.Get("X-Seen") == "192.0.2.1"; got != trusted {
			t.Errorf("a client of the socket is believed: %v, expected %v", got, trusted)
		}
		if _, err := listenOn(unixScheme + front); err == nil {
			t.Error("a socket that is listened on was taken")
		}
		over.CloseIdleConnections()
		p.stop()
		if err := p.wait(t); err != nil {
			t.Fatal(err)
		}
	}
}
