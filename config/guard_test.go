package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

const guardExample = "../examples/guard/spillgate.yaml"

// The example is valid, and names every key.
func TestGuardExample(t *testing.T) {
	f, err := Load(guardExample)
	if err != nil {
		t.Fatal(err)
	}
	if f.HasProxy() || f.Guard == nil || len(f.Guard.Servers) != 1 {
		t.Fatalf("read %+v", f)
	}
	s := f.Guard.Servers[0]
	if s.Objective != 500*time.Millisecond || s.Mode != culprit.Monitor || len(s.Rules.Allow) != 1 || len(s.Rules.Deny) != 2 || s.Rules.Allow[0].User != "etl" ||
		s.KillSwitch != "../examples/guard/stop-cancels" || f.Guard.Audit != "../examples/guard/audit.jsonl" {
		t.Errorf("read %+v", s)
	}
	text, err := os.ReadFile(guardExample)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Decode("x", []byte("guard: {?: 1, servers: [{?: 1, allow: [{?: 1}]}]}"))
	keys := 0
	for _, m := range mistakes(t, err) {
		if m.Value != "unknown key" {
			continue
		}
		for key := range strings.SplitSeq(m.Want, ", ") {
			if keys++; !strings.Contains(string(text), key+":") {
				t.Errorf("the example does not show %s (%s)", key, m.Field)
			}
		}
	}
	if keys < 20 {
		t.Errorf("only %d keys were looked for", keys)
	}
}

// Mistakes have their places, and no password.
func TestGuardMistakes(t *testing.T) {
	_, err := Decode("f", []byte(`guard:
  admin: nowhere
  servers:
    - url: oracle://u:s3cret@h
      slo: fast
    - url: postgres://u:s3cret@h:port/
      mode: soon
      period: 1h
      per_second: 0
      per_minute: -1
      per_completion: 0
      allow: [{}]
      deny: [{kind: sleep}, {fingerprint: xyz}]
    - postgres://h/d
`))
	if err == nil {
		t.Fatal("accepted")
	}
	text := err.Error()
	for _, want := range []string{"f:2:10: guard.admin", "f:4:12: guard.servers[0].url", `f:5:12: guard.servers[0].slo: "fast"`, "f:6:12: guard.servers[1].url",
		"guard.servers[1].slo", `f:7:13: guard.servers[1].mode: "soon"`, "guard.servers[1].period", "f:9:19: guard.servers[1].per_second: 0, expected more than 0; mode: monitor cancels nothing",
		"f:10:19: guard.servers[1].per_minute: -1, expected a whole number", "guard.servers[1].per_completion: 0, expected more than 0", "guard.servers[1].allow[0]", "guard.servers[1].deny[0].kind", "guard.servers[1].deny[1].fingerprint",
		"guard.servers[2].slo"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing about %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("a password in\n%s", text)
	}
}
