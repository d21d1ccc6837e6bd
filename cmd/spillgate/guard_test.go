package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGHUP has a running guard take a changed file, all of it or nothing, and say what needs a
// restart. Its server need not be there.
func TestGuardHangup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.yaml")
	write := func(keys string) {
		t.Helper()
		text := "guard:\n  servers:\n    - {url: \"postgres://u@127.0.0.1:1/d\", " + keys + "}\n"
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("slo: 100ms")
	var log lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, subcommands(), []string{"guard", "--config", path, "--deny", "user=root"}, io.Discard, &log)
	}()
	defer func() {
		cancel()
		<-done
	}()
	await := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q within a minute in\n%s", want, log.String())
			}
		}
	}
	await("cannot look at the server") // it runs, and listens to signals
	for _, step := range []struct{ keys, want string }{
		{"slo: 100ms, mode: enforce", "configuration taken"},
		{"slo: soon", "configuration not taken"},
		{"slo: 200ms, allow: [{kind: schema}]", "keys=guard.servers[0].slo"},
	} {
		write(step.keys)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await(step.want)
	}
}

// Without a file there is nothing to read: SIGHUP is told, and the guard goes on. It opens its audit log again.
func TestGuardHangupWithoutFile(t *testing.T) {
	hangUp(t, "SIGHUP is ignored")
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	hangUp(t, "the audit log was opened again", "--audit", audit)
	if text, err := os.ReadFile(audit); err != nil || !strings.Contains(string(text), `"config":{`) {
		t.Errorf("the audit log is %q, %v", text, err)
	}
}

// hangUp runs a guard with further arguments, sends it SIGHUP and waits for what it says.
func hangUp(t *testing.T, says string, args ...string) {
	t.Helper()
	var log lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, subcommands(), append([]string{"guard", "--slo", "100ms", "postgres://u@127.0.0.1:1/d"}, args...), io.Discard, &log)
	}()
	await := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q within a minute in\n%s", want, log.String())
			}
		}
	}
	await("cannot look at the server") // it runs, and listens to signals
	// Without a listener the signal ends this process. One of the test's own keeps it, so that what fails is the test.
	kept := make(chan os.Signal, 1)
	signal.Notify(kept, syscall.SIGHUP)
	defer signal.Stop(kept)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(says)
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d, expected 0", code)
	}
}
