package reread

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the files hold is taken once for each change; what does not fit leaves it alone.
func TestLook(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwords")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	loads, taken := 0, ""
	f := New("passwords", []string{"", name}, func() ([]any, error) {
		loads++
		text, err := os.ReadFile(name)
		if err == nil && string(text) == "wrong" {
			err = errors.New("it is wrong")
		}
		if err != nil {
			return nil, err
		}
		taken = string(text)
		return []any{"users", 7}, nil
	}, "of", "broker")
	for _, step := range []struct {
		text, taken, log string
		loads            int
	}{
		{"one", "", "", 0},
		{"two", "two", `msg="passwords read again" of=broker users=7`, 1},
		{"two", "two", "", 1},
		{"wrong", "two", `msg="passwords not taken; the old ones stay" of=broker error="it is wrong"`, 2},
		{"wrong", "two", "", 2},
		{"two", "two", "read again", 3},
	} {
		write(step.text)
		out.Reset()
		f.Look(log)
		if taken != step.taken || loads != step.loads || !strings.Contains(out.String(), step.log) || step.log == "" && out.Len() > 0 {
			t.Errorf("%q: taken %q after %d loads, logged %q; want %q, %d, %q", step.text, taken, loads, out.String(), step.taken, step.loads, step.log)
		}
	}
}
