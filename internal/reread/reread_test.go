package reread

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the files hold is taken once for each change; what does not fit leaves it alone.
func TestLook(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwords")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	loads, taken, busy := 0, "", false // busy as a process that can open no file
	f := New("passwords", []string{"", name}, func() ([]any, error) {
		loads++
		text, err := os.ReadFile(name)
		if busy {
			err = errors.New("too many open files")
		}
		if err == nil && string(text) == "wrong" {
			err = errors.New("it is wrong")
		}
		if err != nil {
			return nil, err
		}
		taken = string(text)
		return []any{"users", 7}, nil
	}, "of", "broker")
	for _, step := range []struct {
		text, taken, log string
		loads            int
	}{
		{"one", "", "", 0},
		{"two", "two", `msg="passwords read again" of=broker users=7`, 1},
		{"two", "two", "", 1},
		{"wrong", "two", `msg="passwords not taken; the old ones stay" of=broker error="it is wrong"`, 2},
		{"wrong", "two", "", 3}, // tried again, because what was wrong may not have been the file
		{"two", "two", "read again", 4},
		{"two", "two", "", 4},
		{"three, busy", "two", "too many open files", 5},
		{"three, busy", "two", "", 6},
		{"three", "three", "read again", 7},
	} {
		text, isBusy := strings.CutSuffix(step.text, ", busy")
		busy = isBusy
		write(text)
		out.Reset()
		f.Look(log)
		if taken != step.taken || loads != step.loads || !strings.Contains(out.String(), step.log) || step.log == "" && out.Len() > 0 {
			t.Errorf("%q: taken %q after %d loads, logged %q; want %q, %d, %q", step.text, taken, loads, out.String(), step.taken, step.loads, step.log)
		}
	}
}

// The log names each certificate with its expiry, the first to expire first, and not without end.
func TestExpiry(t *testing.T) {
	of := func(names ...string) *tls.Config {
		c := new(tls.Config)
		for i, name := range names {
			leaf := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: time.Date(2030-i%2, 1, 2, 3, 4, 5, 0, time.UTC)}
			c.Certificates = append(c.Certificates, tls.Certificate{Leaf: leaf})
		}
		return c
	}
	for want, c := range map[string]*tls.Config{
		"[]": nil,
		"[subject CN=a expires 2030-01-02T03:04:05Z]":                                         of("a"),
		"[certificates CN=b expires 2029-01-02T03:04:05Z, CN=a expires 2030-01-02T03:04:05Z]": of("a", "b"),
	} {
		if got := fmt.Sprint(Expiry(c)); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	if got := fmt.Sprint(Expiry(of(make([]string, mostNamed+3)...))); !strings.HasSuffix(got, " more 3]") {
		t.Errorf("%s, expected how many more there are", got)
	}
}
