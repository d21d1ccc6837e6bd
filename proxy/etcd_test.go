package proxy

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/guard/etcd/keyrange"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// etcdMessage is a message of etcd's with these bytes, which a message without fields of
// its own carries as unknown ones.
func etcdMessage(fields string) *emptypb.Empty {
	m := new(emptypb.Empty)
	m.ProtoReflect().SetUnknown([]byte(fields))
	return m
}

// TestEtcd: in front of a real etcd, what a rule says of ranges over all keys counts for
// these alone.
func TestEtcd(t *testing.T) {
	server, err := servers.Etcd(t.Context(), servers.EtcdConfig{})
	servers.SkipMissing(t, err)
	defer server.Stop()
	p := start(t, Config{Upstreams: []Upstream{{URL: "h2c://" + net.JoinHostPort(server.Host, strconv.Itoa(server.Port))}},
		Workflows: map[string]Workflow{"wide": {}}, Rules: []classify.Rule{{Match: classify.Match{EtcdRange: []string{""}}, Set: classify.Set{Workflow: "wide"}}}})
	conn, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(method, fields string) (string, error) {
		out := new(emptypb.Empty)
		err := conn.Invoke(ctx, method, etcdMessage(fields), out)
		return string(out.ProtoReflect().GetUnknown()), err
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: await.Patience}
	defer client.CloseIdleConnections()
	seen := func() int {
		_, metrics := get(t, client, p.admin+"/metrics")
		n := 0
		for line := range strings.Lines(string(metrics)) {
			if strings.HasPrefix(line, "spillgate_workflow_requests_total{") && strings.Contains(line, `workflow="wide"`) {
				count, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
				n += int(count)
			}
		}
		return n
	}
	if _, err := ask("/etcdserverpb.KV/Put", "\n\x03key\x12\x05value"); err != nil {
		t.Fatal(err)
	}
	for _, fields := range []string{"\n\x03key", "\n\x03key\x12\x03kez"} {
		if out, err := ask(keyrange.MethodRange, fields); err != nil || !strings.Contains(out, "value") {
			t.Errorf("Range %q: %q, %v", fields, out, err)
		}
	}
	if n := seen(); n != 0 {
		t.Errorf("%d requests were taken for ranges over all keys, expected none", n)
	}
	if out, err := ask(keyrange.MethodRange, "\n\x01\x00\x12\x01\x00"); err != nil || !strings.Contains(out, "value") {
		t.Errorf("all keys: %q, %v", out, err)
	}
	if n := seen(); n != 1 {
		t.Errorf("%d requests were taken for ranges over all keys, expected one", n)
	}
}
