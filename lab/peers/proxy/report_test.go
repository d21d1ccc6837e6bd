package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// TestSummarize checks medians, the order of rows, and that spoilt runs count only
// where there are no others.
func TestSummarize(t *testing.T) {
	rows := summarize([]measured{
		{Load: "2x", Proxy: "a", Share: 0.5, P99: 30, Valid: true},
		{Load: "2x", Proxy: "b", Share: 0.1},
		{Load: "4x", Proxy: "a", Share: 0.25, Valid: true},
		{Load: "2x", Proxy: "a", Share: 0.7, P99: 10, Valid: true},
		{Load: "2x", Proxy: "a", Share: 0.9, P99: 99},
		{Load: "2x", Proxy: "a", Share: 0.6, P99: 20, Valid: true},
		{Load: "4x", Proxy: "a", Share: 0.75, Valid: true},
	})
	type short struct {
		load, proxy        string
		share, least, most float64
		p99                time.Duration
		valid, repeats     int
	}
	var got []short
	for _, r := range rows {
		got = append(got, short{r.Load, r.Proxy, r.Share, r.Least, r.Most, r.P99, r.Valid, r.Repeats})
	}
	want := []short{
		{"2x", "a", 0.6, 0.5, 0.7, 20, 3, 4},
		{"2x", "b", 0.1, 0.1, 0.1, 0, 0, 1},
		{"4x", "a", 0.5, 0.25, 0.75, 0, 2, 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestRuns writes runs into a file and reads them again.
func TestRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	if runs, err := readRuns(path); err != nil || runs != nil {
		t.Fatalf("a file that is not there yet: %v, %v", runs, err)
	}
	want := []measured{{Load: "2x", Proxy: "go", Share: 0.5, Lag: time.Millisecond, Valid: true},
		{Load: "0.4→1.4", Proxy: "envoy", RefusedBy: map[string]uint64{"503": 7}, Invalid: []string{"late"}}}
	for _, m := range want {
		if err := addRun(path, m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readRuns(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// TestLoads reads loads and follows one through a run.
func TestLoads(t *testing.T) {
	loads, err := parseLoads("2,0.4-1.4")
	if err != nil || !reflect.DeepEqual(loads, []load{{0, 2}, {0.4, 1.4}}) {
		t.Fatalf("loads are %v, %v", loads, err)
	}
	if got := loads[0].String() + " " + loads[1].String(); got != "2x 0.4→1.4" {
		t.Errorf("the loads are called %q", got)
	}
	profile, from := loads[1].profile(100, 5*time.Second)
	want := openloop.Profile{{Rate: 40, For: 2 * time.Second}, {Rate: 140, For: 3 * time.Second}}
	if !reflect.DeepEqual(profile, want) || from != 2*time.Second {
		t.Errorf("the profile is %v and counts from %v, want %v from 2s", profile, from, want)
	}
	for _, wrong := range []string{"", "0", "-1", "1-", "0-2", "21", "NaN", "spike"} {
		if loads, err := parseLoads(wrong); err == nil {
			t.Errorf("%q was taken as %v", wrong, loads)
		}
	}
}

// TestJudge counts an answer after the objective as late, as it does none at all.
func TestJudge(t *testing.T) {
	counted := measure.Span{Counts: measure.Counts{Offered: 10, Served: 5, Good: 4, Refused: 2, TimedOut: 3}, Goodput: 40}
	m := order{Capacity: 100}.judge(measure.Result{Valid: true}, counted)
	if m.Share != 0.4 || m.Late != 0.4 || m.Refused != 0.2 || !m.Valid {
		t.Errorf("got %+v", m)
	}
}

// TestConfigureEnvoy checks what of the configuration depends on the contender.
func TestConfigureEnvoy(t *testing.T) {
	for filter, others := range map[string]string{"none": "gradient_controller|sr_threshold", "adaptive_concurrency": "sr_threshold", "admission_control": "gradient_controller"} {
		text, err := configureEnvoy(filter, "127.0.0.1:4711")
		if err != nil {
			t.Fatal(err)
		}
		config := string(text)
		for _, part := range []string{"address: 127.0.0.1, port_value: 4711", "timeout: 0.09s"} {
			if !strings.Contains(config, part) {
				t.Errorf("%s: the configuration has no %q", filter, part)
			}
		}
		if filter != "none" && !strings.Contains(config, "name: envoy.filters.http."+filter+"\n") {
			t.Errorf("%s: the filter is not configured", filter)
		}
		for part := range strings.SplitSeq(others, "|") {
			if strings.Contains(config, part) {
				t.Errorf("%s: the configuration has %q", filter, part)
			}
		}
	}
}
