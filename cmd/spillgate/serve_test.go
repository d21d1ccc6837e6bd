package main

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// A duration has its unit in both kinds of logs.
func TestLogsSayDurationsWithUnits(t *testing.T) {
	for _, json := range []bool{false, true} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&out)
		newLogger(cmd, json, slog.LevelInfo).Info("serving", "slo", 200*time.Millisecond, slog.Group("drain", "timeout", 30*time.Second), "n", 5)
		want := []string{"slo=200ms", "drain.timeout=30s", "n=5"}
		if json {
			want = []string{`"slo":"200ms"`, `"timeout":"30s"`, `"n":5`}
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("no %s in %s", w, out.String())
			}
		}
	}
}

// What a library writes with package log is a line of the log like any other.
func TestLinesOfLibraries(t *testing.T) {
	before := slog.Default()
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(io.Discard) // SetDefault leaves it with the command's
		log.SetFlags(log.LstdFlags)
	}()
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&out)
	newLogger(cmd, true, slog.LevelInfo)
	log.Print("Unsolicited response")
	if got := out.String(); !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"Unsolicited response"`) {
		t.Errorf("%q, expected a line in JSON", got)
	}
}
