package proxy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
)

// Certificates, authorities and client certificates are read again when their files
// change; files that do not fit leave the old ones.
func TestCertificatesAreReadAgain(t *testing.T) {
	servers, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	upCert, upKey := servers.issue("upstream")
	frontCert, frontKey := servers.issue("front")
	proxyCert, proxyKey := clients.issue("proxy")
	pair, err := tls.LoadX509KeyPair(upCert, upKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients.pool(), ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ErrorLog: (&Proxy{log: discard()}).errorLog(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%x", r.TLS.PeerCertificates[0].SubjectKeyId)
		fmt.Fprintf(w, "%x", r.TLS.PeerCertificates[0].Raw)
	})}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); await.Value(t, done, "the server to stop") })
	cfg := Config{
		Listen:    []Listener{{Address: "127.0.0.1:0", Cert: frontCert, Key: frontKey}},
		Upstreams: []Upstream{{URL: "https://" + l.Addr().String(), CA: servers.pem, Cert: proxyCert, Key: proxyKey}},
	}
	p := start(t, cfg)
	ask := func() (front, shown string, code int) {
		c := client(t, 1, &tls.Config{RootCAs: servers.pool()})
		resp, body := get(t, c, p.url)
		return string(resp.TLS.PeerCertificates[0].Raw), body, resp.StatusCode
	}
	front, shown, code := ask()
	if code != http.StatusOK {
		t.Fatal(code)
	}
	p.lookAtKeys()
	if again, body, _ := ask(); again != front || body != shown {
		t.Error("certificates changed although their files did not")
	}

	// SIGHUP ends in Reload.
	servers.issue("front")
	clients.issue("proxy")
	cfg = p.state.Load().cfg
	if _, err := p.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	newFront, newShown, code := ask()
	if newFront == front || newShown == shown || code != http.StatusOK {
		t.Errorf("the new certificate is shown to clients: %v, to the upstream: %v; %d", newFront != front, newShown != shown, code)
	}
	if n := strings.Count(p.log.String(), "certificates read again"); n != 2 || !strings.Contains(p.log.String(), `subject="CN=front" expires=`) {
		t.Errorf("the log tells of %d, expected 2 with subject and expiry:\n%s", n, p.log)
	}

	// A key that does not fit, and half of a file.
	good, err := os.ReadFile(frontKey)
	if err != nil {
		t.Fatal(err)
	}
	// The proxy looks by itself, too, also while only one file of a pair is new, or half written.
	replace := func(text string) {
		err := os.WriteFile(frontKey+".new", []byte(text), 0o600)
		if err == nil {
			err = os.Rename(frontKey+".new", frontKey)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.lookAtKeys()
	}
	notTaken := func() int { return strings.Count(p.log.String(), "certificates not taken") }
	before := notTaken()
	for _, text := range []string{string(good[:len(good)/2]), ""} {
		replace(text)
		if same, _, code := ask(); same != newFront || code != http.StatusOK {
			t.Errorf("a broken key: the same certificate %v, %d", same == newFront, code)
		}
	}
	if n := notTaken() - before; n != 2 {
		t.Errorf("the log tells of %d broken files, expected 2:\n%s", n, p.log)
	}
	replace(string(good))

	// Authorities.
	authorities, err := os.ReadFile(servers.pem)
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := os.ReadFile(newAuthority(t, "strangers").pem)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text []byte
		want int
	}{{strangers, http.StatusBadGateway}, {authorities, http.StatusOK}} {
		if err := os.WriteFile(servers.pem, step.text, 0o600); err != nil {
			t.Fatal(err)
		}
		p.lookAtKeys()
		if _, _, code := ask(); code != step.want {
			t.Errorf("with other authorities: %d, expected %d", code, step.want)
		}
	}
}
