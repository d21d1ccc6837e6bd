package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/config"
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

// Logs are opened again where a configuration is not taken as well: SIGHUP says that they were moved away, whatever the file says.
func TestLogsAreOpenedAgainWithoutAConfiguration(t *testing.T) {
	opened, reloaded := 0, 0
	s := serving{first: &config.File{}, log: slog.New(slog.DiscardHandler), level: new(slog.LevelVar), reopen: func() { opened++ }, reload: func(*config.File) ([]string, error) {
		reloaded++
		return nil, nil
	}}
	s.take(nil, errors.New("a mistake"))
	if opened != 1 || reloaded != 0 {
		t.Errorf("opened %d times, taken %d times", opened, reloaded)
	}
	if s.take(&config.File{}, nil); opened != 1 || reloaded != 1 {
		t.Errorf("with a configuration that is taken: opened %d times, taken %d times", opened, reloaded)
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
