package config

import (
	"testing"

	"github.com/spillgate/spillgate/internal/culprit"
)

// The example for a stock etcd is valid: wide ranges hold what all else needs.
func TestEtcdExample(t *testing.T) {
	f, err := Load("../examples/etcd/spillgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Proxy.Rules) != 2 || f.Proxy.Culprit.Mode != culprit.Enforce {
		t.Fatalf("read %+v", f.Proxy)
	}
	wide, rest := f.Proxy.Rules[0], f.Proxy.Rules[1]
	if len(wide.Match.EtcdRange) != 2 || !wide.Set.Use.NoCancel || wide.Set.Use.AtOnce != 2 || wide.Set.Use.Holds == "" || rest.Set.Use.Needs != wide.Set.Use.Holds {
		t.Errorf("read %+v and %+v", wide, rest)
	}
}
