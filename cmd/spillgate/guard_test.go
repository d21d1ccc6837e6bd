package main

import (
	"context"
	"io"
	"os"
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
