package main

import (
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/fastrpc"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, "", "", time.Second); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "answered ") || strings.Contains(out.String(), "answered 0/s") {
		t.Errorf("output:\n%s", out.String())
	}
}

func TestStore(t *testing.T) {
	gate, err := spillgate.New(objective)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	server, err := newServer(gate)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	client, err := fastrpc.Dial(t.Context(), fastrpc.ClientConfig{}, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	call := func(method, in string) (string, error) {
		out, err := client.Method(method).Call(t.Context(), []byte(in), nil)
		return string(out), err
	}
	if _, err := call("set", "\x00\x03keyvalue"); err != nil {
		t.Fatal(err)
	}
	if v, err := call("get", "key"); v != "value" || err != nil {
		t.Errorf("get returned %q, %v", v, err)
	}
	if n, err := call("scan", "k"); err != nil || binary.BigEndian.Uint32([]byte(n)) != 1 {
		t.Errorf("scan returned %x, %v", n, err)
	}
	if _, err := call("delete", "key"); err != nil {
		t.Error(err)
	}
	var own *fastrpc.Error
	if _, err := call("get", "key"); !errors.As(err, &own) || own.Code != 404 {
		t.Errorf("get of a deleted key returned %v", err)
	}
	if _, err := call("set", "\x00\x09key"); !errors.As(err, &own) || own.Code != 400 {
		t.Errorf("set without a value returned %v", err)
	}
}
