package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/mono"
)

// auditLog returns the log of an engine that watches two tasks wait for a third.
func auditLog(t *testing.T) []byte {
	t.Helper()
	r, err := audit.NewRecorder("db1", culprit.Config{Objective: 100 * time.Millisecond, Mode: culprit.Enforce})
	if err != nil {
		t.Fatal(err)
	}
	log := bytes.Clone(r.Begin())
	for k := range 8 {
		at := mono.Time(time.Duration(k+1) * 100 * time.Millisecond)
		s := &culprit.Sample{At: at, Resources: []culprit.Resource{{Name: "table", Kind: culprit.Lock}}}
		for i := range 3 {
			began := mono.Time(100+i) * mono.Time(time.Millisecond)
			if began > at {
				continue
			}
			s.Tasks = append(s.Tasks, culprit.Task{ID: uint64(i + 1), Kind: uint64(i + 1), Started: began, Steps: culprit.StepsOf(culprit.Statement)})
			h := culprit.Hold{Task: int32(i), HeldSince: culprit.Unset, WaitingSince: began}
			if i == 0 {
				h = culprit.Hold{HeldSince: began, WaitingSince: culprit.Unset}
			}
			s.Holds = append(s.Holds, h)
		}
		_, lines := r.Observe(s)
		log = append(log, lines...)
	}
	return log
}

func TestReplay(t *testing.T) {
	log := auditLog(t)
	changed := bytes.Replace(log, []byte(`"stuck":2`), []byte(`"stuck":3`), 1)
	cut := log[:len(log)-20]
	for _, tt := range []struct {
		name string
		log  []byte
		code int
		want string
	}{
		{"as logged", log, exitOK, "all as logged"},
		{"names the task and what was done", log, exitOK, `action {"task":1,"step":"statement"`},
		{"a decision was changed", changed, exitFailure, "the decision differs"},
		{"the last line is cut off", cut, exitOK, "cut off"},
		{"no log", []byte("hello\n"), exitFailure, "line 1: audit: no JSON object"},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, tt.log, 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), subcommands(), []string{"guard", "replay", path}, &out, &errs)
		if text := out.String() + errs.String(); code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", tt.name, code, tt.code, tt.want, text)
		}
	}
}

// What differs is said aside: the standard output of --json is JSON alone.
func TestReplayAsJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, bytes.Replace(auditLog(t), []byte(`"stuck":2`), []byte(`"stuck":3`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), subcommands(), []string{"guard", "replay", "--json", path}, &out, &errs); code != exitFailure || !strings.Contains(errs.String(), "the decision differs") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	lines := 0
	for line := range strings.Lines(out.String()) {
		if lines++; !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if lines == 0 {
		t.Error("no decisions")
	}
}
