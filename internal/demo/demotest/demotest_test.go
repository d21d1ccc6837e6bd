package demotest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

var record = flag.Bool("record", false, "play the demo, for about a minute, and write recorded.json if it counts")

// part makes the test program a part of the demo.
const part = "demotest-part"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == part {
		if err := stage.Run(context.Background(), os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// mostRecordings is how often a demo is played until one counts.
const mostRecordings = 6

// TestRecord makes the recording anew:
//
//	go test ./internal/demo/demotest -run TestRecord -record
//
// Nothing in the tests of the views depends on what the figures are.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("without -record")
	}
	for range mostRecordings {
		s, err := demo.Play(t.Context(), demo.Config{Plan: demo.Full(), Seed: Seed, Command: []string{part}})
		if err != nil {
			t.Fatal(err)
		}
		if bad := check(s); bad != "" {
			t.Log(bad)
			continue
		}
		s.Report = "out/demo/index.html"
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("recorded.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no demo counted")
}

// check says why a demo is no recording; empty if it is one.
func check(s demo.State) string {
	switch {
	case s.Scene != demo.Done || !s.Complete() || !s.Tenants.Complete() || !s.Checkout.Complete() || !s.Culprit.Complete() || !s.Feed.Complete():
		return "the demo was not played to its end"
	case s.Invalid() != "":
		return "it does not count: " + s.Invalid()
	case s.Acts[1].Outcome.Recovery < 0:
		return "the gated act did not recover"
	case s.Acts[0].Outcome.Totals.TimedOut == 0 || s.Acts[1].Outcome.Totals.Refused == 0:
		return "nothing timed out, or nothing was refused"
	case s.Culprit.Runs[0].Report == nil || s.Culprit.Runs[1].Report == nil || s.Culprit.Runs[1].Named == nil:
		return "a report did not end, or no culprit was named"
	case s.Feed.Runs[0].Totals.TimedOut == 0:
		return "the flood delayed nobody"
	}
	return ""
}

// The recording is one of the demo as it is now: with the same fields, the same
// plan, and figures that count.
func TestRecorded(t *testing.T) {
	decoder := json.NewDecoder(bytes.NewReader(recorded))
	decoder.DisallowUnknownFields()
	var s demo.State
	if err := decoder.Decode(&s); err != nil {
		t.Fatalf("%v; make it anew with -record", err)
	}
	if bad := check(s); bad != "" {
		t.Errorf("%s; make it anew with -record", bad)
	}
	p := demo.Full()
	if s.Seed != Seed || s.Quick || s.ActLength != p.Length().Seconds() || s.Tenants.Length != p.TenantLength().Seconds() || s.Checkout.Length != p.Shop.Length().Seconds() || s.Culprit.Length != p.Lock.Length().Seconds() || s.Feed.Length != p.Feed.Length().Seconds() {
		t.Errorf("seed %d, quick %v, acts of %v, %v, %v, %v and %v s: not those of the plan; make it anew with -record", s.Seed, s.Quick, s.ActLength, s.Tenants.Length, s.Checkout.Length, s.Culprit.Length, s.Feed.Length)
	}
}
