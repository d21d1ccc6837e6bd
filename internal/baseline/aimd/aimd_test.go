package aimd

import (
	"strings"
	"testing"
	"time"
)

func TestOracle(t *testing.T) {
	cfg := Config{InitialLimit: 100, Timeout: 10 * time.Millisecond}
	for _, c := range []struct {
		what     string
		rtt      time.Duration
		inflight int
		dropped  bool
		want     int
	}{
		{"half in use: + 1", time.Millisecond, 50, false, 101},
		{"less in use: stay", time.Millisecond, 49, false, 100},
		{"dropped: × 0.9", time.Millisecond, 1, true, 90},
		{"over the timeout: × 0.9", 10*time.Millisecond + 1, 1, false, 90},
		{"at the timeout: not yet", 10 * time.Millisecond, 100, false, 101},
	} {
		a, err := NewAlgorithm(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.Sample(c.rtt, c.inflight, c.dropped)
		if a.Limit() != c.want {
			t.Errorf("%s: limit %d, want %d", c.what, a.Limit(), c.want)
		}
	}
}

func TestLimitStaysInBounds(t *testing.T) {
	a, _ := NewAlgorithm(Config{})
	for range 100 {
		a.Sample(1, 1000, true)
	}
	if a.Limit() != 20 {
		t.Errorf("limit %d after 100 drops, want the least, 20", a.Limit())
	}
	for range 1000 {
		a.Sample(1, 1000, false)
	}
	if a.Limit() != 200 {
		t.Errorf("limit %d after 1,000 successes, want the most, 200", a.Limit())
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{MinLimit: 300, Backoff: 1, Timeout: -1})
	for _, want := range []string{"MinLimit is 300", "Backoff is 1", "Timeout is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
