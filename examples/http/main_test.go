package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

var answered = regexp.MustCompile(`in time [1-9]\d*/s`)

// output keeps what is written, and calls answered when it says that callers had answers.
type output struct {
	text     strings.Builder
	answered func()
}

func (o *output) Write(b []byte) (int, error) {
	if answered.Match(b) {
		o.answered()
	}
	return o.text.Write(b)
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // which only ends a hang
	defer cancel()
	out := output{answered: cancel}
	if err := run(ctx, &out); err != nil {
		t.Fatal(err)
	}
	if !answered.MatchString(out.text.String()) {
		t.Errorf("output:\n%s", out.text.String())
	}
}
