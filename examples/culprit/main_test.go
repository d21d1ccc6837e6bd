package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is a strings.Builder for several goroutines.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func TestRun(t *testing.T) {
	var out output
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // which only ends a hang
	defer cancel()
	if err := run(ctx, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.text.String())
	}
	text := out.text.String()
	t.Log("\n" + text)
	for _, want := range []string{`GET /report has held "store"`, "report: cancelled", "report: answered"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output does not say %q:\n%s", want, text)
		}
	}
}
