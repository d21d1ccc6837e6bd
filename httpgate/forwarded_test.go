package httpgate

import (
	"net/http"
	"net/netip"
	"testing"
)

// TestNamedClient: of what a proxy says, the last address counts that is no proxy's, so what a client wrote itself, which
// stands before that, does not.
func TestNamedClient(t *testing.T) {
	proxies := netip.MustParsePrefix("10.0.0.0/8")
	for _, test := range []struct {
		name           string
		xff, forwarded []string
		want           string // "" is none
	}{
		{"nothing", nil, nil, ""},
		{"one", []string{"192.0.2.1"}, nil, "192.0.2.1"},
		{"a port", []string{"192.0.2.1:80"}, nil, "192.0.2.1"},
		{"behind a second proxy", []string{"192.0.2.1, 10.0.0.1"}, nil, "192.0.2.1"},
		{"in two fields", []string{"192.0.2.1", "10.0.0.1"}, nil, "192.0.2.1"},
		{"the client's own words", []string{"192.0.2.7, 192.0.2.1,10.0.0.1"}, nil, "192.0.2.1"},
		{"proxies only", []string{"10.0.0.2, 10.0.0.1"}, nil, "10.0.0.2"},
		{"no address", []string{"192.0.2.1, unknown"}, nil, ""},
		{"an empty one", []string{"192.0.2.1,"}, nil, ""},
		{"IPv6", []string{"2001:db8::1"}, nil, "2001:db8::1"},
		{"IPv6 with a port", []string{"[2001:db8::1]:80"}, nil, "2001:db8::1"},
		{"IPv4 in IPv6", []string{"::ffff:192.0.2.1"}, nil, "192.0.2.1"},
		{"Forwarded", nil, []string{`for=192.0.2.7;proto=http, proto=https; For="[2001:db8::1]:80", for=10.0.0.1`}, "2001:db8::1"},
		{"Forwarded, a name", nil, []string{`for=192.0.2.1, for=_hidden`}, ""},
		{"both", []string{"192.0.2.1"}, []string{"for=192.0.2.2"}, "192.0.2.1"},
	} {
		header := http.Header{}
		if test.xff != nil {
			header["X-Forwarded-For"] = test.xff
		}
		if test.forwarded != nil {
			header["Forwarded"] = test.forwarded
		}
		got := ""
		if a := named(header, proxies.Contains); a.IsValid() {
			got = a.String()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
