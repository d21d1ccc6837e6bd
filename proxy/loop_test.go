package proxy

import (
	"strings"
	"testing"
	"time"
)

// A proxy in front of itself is a mistake, however its address is written, and a server on
// another address or port of the machine is none.
func TestTheProxyIsNoServerOfItsOwn(t *testing.T) {
	for _, test := range []struct {
		listen, upstream string
		loop             bool
	}{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"127.0.0.1:8080", "h2c://localhost:8080", true},
		{"[::1]:8080", "http://[::1]:8080", true},
		{"localhost:80", "http://127.0.0.1", true},
		{":8080", "http://127.0.0.1:8080", true},
		{"0.0.0.0:443", "https://localhost", true},
		{"app.internal:8080", "http://app.internal:8080", true},
		{"unix:/run/a.sock", "unix:/run/a.sock", true},

		{"127.0.0.1:8080", "http://127.0.0.1:9000", false},
		{"127.0.0.1:8080", "http://127.0.0.2:8080", false},
		{":8080", "http://10.0.0.1:8080", false},
		{":8080", "http://app.internal:8080", false},
		{"127.0.0.1:0", "http://127.0.0.1:8080", false},
		{"unix:/run/a.sock", "unix:/run/b.sock", false},
		{"unix:/run/a.sock", "http://localhost:80", false},
	} {
		cfg := Config{Objective: time.Second, Listen: []Listener{{Address: test.listen}}, Upstreams: []Upstream{{URL: test.upstream}}}
		grouped := cfg
		grouped.Upstreams, grouped.Groups = nil, []Group{{Name: "all", Paths: []string{"/"}, Upstreams: cfg.Upstreams}}
		for field, cfg := range map[string]Config{"upstreams[0].url": cfg, "groups[0].upstreams[0].url": grouped} {
			found := false
			for _, m := range cfg.Check() {
				if m.Field != field || !strings.Contains(m.Want, "listen[0]") {
					t.Errorf("%s in front of %s: %v", test.listen, test.upstream, m)
				}
				found = true
			}
			if found != test.loop {
				t.Errorf("%s in front of %s, in %s: said %v, want %v", test.listen, test.upstream, field, found, test.loop)
			}
		}
	}
}
