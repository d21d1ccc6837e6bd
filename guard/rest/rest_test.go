package rest

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func parsed(t *testing.T, text string) *Target {
	t.Helper()
	target, err := Parse("x", text, "80", "x://host", "x")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// Over TLS a server is believed if its authority is known, or if nobody is to look.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = w.Write([]byte(user + ":" + password))
	}))
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "https://")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, ok := range map[string]bool{"tls=true": false, "tls=skip-verify": true, "ca=" + url.QueryEscape(ca): true} {
		c := New(parsed(t, "x://eve:pw@"+host+"?"+query))
		body, err := c.Do(t.Context(), http.MethodGet, "/", "")
		if (err == nil) != ok || ok && string(body) != "eve:pw" || err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %q, %v; expected success %v", query, body, err, ok)
		}
		c.Close()
	}
}

// Whatever is wrong with a URL, its error says what was expected.
func TestMistakesSayWhatWasExpected(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "y://h", "x://", "x://h?a=1", "x://h?tls=1", "x://h?%", "x://h?ca=" + url.QueryEscape(empty), "x://h?ca=" + url.QueryEscape(empty+"x")} {
		if _, err := Parse("x", text, "80", "x://host", "x"); err == nil || !strings.Contains(err.Error(), "expected ") {
			t.Errorf("%q: %v, expected an error that says what was expected", text, err)
		}
	}
}

// An answer that does not end is cut off.
func TestLargest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c := New(parsed(t, "x://"+strings.TrimPrefix(server.URL, "http://")))
	defer c.Close()
	if _, err := c.Do(t.Context(), http.MethodGet, "/", ""); err == nil || !strings.Contains(err.Error(), "larger than") && !strings.Contains(err.Error(), "deadline") {
		t.Errorf("%v, expected that it is too large", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("x://u:pw@h:1/p?tls=true&ca=/x")
	f.Fuzz(func(t *testing.T, text string) {
		if target, err := Parse("x", text, "80", "x://host", "x"); (target == nil) == (err == nil) {
			t.Errorf("%v, %v", target, err)
		}
	})
}
