//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/access"
)

func brokerCommands() []func() *cobra.Command {
	return []func() *cobra.Command{newBroker, newCheck}
}

// Every mistake in flags and file is reported at once, without a password.
func TestBrokerMistakes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("broker:\n  listen: [\"nats+tls://:4222\", \"amqp://127.0.0.1:1\"]\n  users: [{name: a, password: secret}]\n  nsq: {ready: -1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want []string
	}{
		{"check " + bad, exitFailure, []string{"bad.yaml:2:32: broker.listen[1]", "broker.tls.cert: missing", "broker.tls.key: missing", "bad.yaml:3:31: broker.users[0].password", "bad.yaml:4:16: broker.nsq.ready", "5 mistakes"}},
		{"check ../../examples/broker/spillgate.yaml", exitOK, []string{"ok", "broker 127.0.0.1:1883, nats://127.0.0.1:4222", "admin 127.0.0.1:9092", "anonymous clients: from loopback"}},
		{"broker --listen 0.0.0.0:0 --cert a", exitUsage, []string{`--listen "0.0.0.0:0"`, "without users", "--key is missing", "no listener with TLS"}},
		{"broker --anonymous home --listen nats://x", exitUsage, []string{`--anonymous "home"`, `--listen "x"`}},
		{"broker --limit plant/#", exitUsage, []string{`--limit "plant/#": rate is 0`, `--limit "plant/#": burst is 0`}},
	} {
		var out bytes.Buffer
		code := run(context.Background(), brokerCommands(), strings.Fields(tt.args), &out, &out)
		if code != tt.code || strings.Contains(out.String(), "secret") {
			t.Errorf("%s: exit code %d, want %d", tt.args, code, tt.code)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.args, want, out.String())
			}
		}
	}
}

// SIGHUP has passwords read again; a change of the configuration is taken as well.
func TestBrokerHangup(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		// By a rename, so that no half of it is read.
		if err := os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	password := func(p string) string {
		h, err := bcrypt.GenerateFromPassword([]byte(p), bcrypt.MinCost) // a higher cost takes seconds here
		if err != nil {
			t.Fatal(err)
		}
		return "ann:" + string(h) + "\n"
	}
	write("passwords", password("one"))
	const text = "broker:\n  listen: [\"nats://127.0.0.1:0\"]\n  passwords: passwords\n  users: [{name: ann}]\n"
	write("broker.yaml", text)
	var log lockedBuffer
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, brokerCommands(), []string{"broker", "--config", filepath.Join(dir, "broker.yaml")}, io.Discard, &log)
	}()
	defer func() {
		cancel()
		<-done
	}()
	addr := ""
	enters := func(password string) bool {
		nc, err := nats.Connect("nats://"+addr, nats.NoReconnect(), nats.UserInfo("ann", password))
		if err == nil {
			nc.Close()
		}
		return err == nil
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	await("the broker", func() bool {
		m := regexp.MustCompile(`clients="?\[(127[^]]+)\]`).FindStringSubmatch(log.String())
		if m != nil {
			addr = m[1]
		}
		return m != nil
	})
	await("a client", func() bool { return enters("one") })
	write("passwords", password("two"))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("the new password", func() bool { return enters("two") })
	if enters("one") {
		t.Error("the old password is still right")
	}
	write("broker.yaml", text+"  anonymous: {from: anywhere}\n")
	await("anonymous clients", func() bool {
		nc, err := nats.Connect("nats://"+addr, nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

func TestBrokerPassword(t *testing.T) {
	cmd := newBrokerPassword()
	var out bytes.Buffer
	cmd.SetIn(strings.NewReader("secret\n"))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"ann"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	name, hash, _ := strings.Cut(strings.TrimSpace(out.String()), ":")
	access.Config{Users: []access.User{{Name: name, Password: hash}}}.Check(func(field, value, want string) {
		t.Errorf("%q has a mistake: %s: %s, expected %s", out.String(), field, value, want)
	})
	for _, in := range []string{"", "a\nb\n", strings.Repeat("x", 73)} {
		cmd := newBrokerPassword()
		cmd.SetIn(strings.NewReader(in))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(nil)
		if cmd.Execute() == nil {
			t.Errorf("%.10q is taken", in)
		}
	}
}
