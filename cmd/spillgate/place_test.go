package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A placer serves, and commands beside it set, list, explain, try and refuse.
func TestPlace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	served := make(chan int, 1)
	go func() {
		served <- run(ctx, subcommands(), []string{"place", "serve", "--embed", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--data", t.TempDir()}, io.Discard, write)
		write.Close()
	}()
	first := make([]byte, 1000)
	n, err := read.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, read)
	url := regexp.MustCompile(`nats=(\S+)`).FindSubmatch(first[:n])
	if url == nil {
		t.Fatalf("it does not say where it is: %s", first[:n])
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"topic t --rate 100 --burst 26 --objective 1ms --publisher-rate 1", exitUsage, "rate is 100, expected at most 0 messages a second, the capacity of all nodes: add a node"},
		{"node n1 --address h1:1883 --capacity 1000", exitOK, "No publisher moves."},
		{"node n2 --address h2:1883 --capacity 1000", exitOK, "No publisher moves."},
		{"topic t --rate NaN --burst 0.5 --objective 1ms", exitUsage, "burst is 0.5, expected 1 to"},
		{"topic t --rate 100 --burst 26 --objective 1ms --publisher-rate 1", exitOK, ""},
		{"where t p1 --group g", exitOK, "h1:1883"},
		{"explain t", exitOK, "1 publisher, 1/s together"},
		{"drain n1 --dry-run", exitOK, "Nothing is changed"},
		{"drain n1", exitOK, "p1"},
		{"where t p1 --group g", exitOK, "h2:1883"},
		{"list", exitOK, "h2:1883"},
		{"moves", exitOK, "n2"},
		{"node n1 --remove", exitOK, ""},
		{"explain u", exitFailure, `topic "u" is not known`},
		{"topic t --remove", exitOK, ""},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), subcommands(), append([]string{"place", "--nats", string(url[1])}, strings.Fields(c.args)...), &out, &errs)
		if text := out.String() + errs.String(); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.want, text)
		}
	}
	cancel()
	select {
	case code := <-served:
		if code != exitOK {
			t.Errorf("serve ended with %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("serve does not end")
	}
}
