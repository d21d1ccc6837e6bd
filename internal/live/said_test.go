package live

import (
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// TestSaid: the same tags are encoded once, and others anew. Those that tell of a line or of a budget
// take turns without that, where nothing else changes.
func TestSaid(t *testing.T) {
	var s Said
	made := 0
	form := func(t wire.Tags) any { made++; return string(t.Append(nil)) }
	for i, step := range []struct {
		tags wire.Tags
		made int
	}{
		{wire.Tags{Credits: true}, 1}, {wire.Tags{Credits: true}, 1}, {wire.Tags{Credits: true, Demand: 1}, 2},
		{wire.Tags{Credits: true}, 2}, {wire.Tags{Budget: 9}, 3}, {wire.Tags{Budget: 9}, 3}, {wire.Tags{Credits: true}, 3},
		{wire.Tags{Credits: true, Demand: 2}, 4}, {wire.Tags{Credits: true, Demand: 1}, 4}, {wire.Tags{Credits: true, Demand: 2, Waited: 1}, 5},
		{wire.Tags{Credits: true, Demand: 2}, 5}, {wire.Tags{Workflow: "w", Demand: 2}, 6}, {wire.Tags{Credits: true, Demand: 2}, 7},
		{wire.Tags{Budget: -1}, 8}, {wire.Tags{Budget: -1}, 8}, {wire.Tags{Budget: 9}, 8},
	} {
		if got := s.Form(&step.tags, form); got != string(step.tags.Append(nil)) || made != step.made {
			t.Errorf("step %d: %q after %d encodings, want those of %+v after %d", i, got, made, step.tags, step.made)
		}
	}
}

// TestCoarse: what a server is told of the line at a client is near what it is, and never above.
func TestCoarse(t *testing.T) {
	told := map[int]bool{}
	for n := range 1 << 16 {
		got := coarseDemand(n)
		if got > n || n < 32 && got != n || 16*(n-got) > n {
			t.Fatalf("a demand of %d is told as %d, expected at most a sixteenth less, and the same below 32", n, got)
		}
		told[got] = true
	}
	if want := 32 + 11*16; len(told) != want {
		t.Errorf("%d demands are told apart, expected %d", len(told), want)
	}
	for left := time.Duration(-3); left < time.Hour; left += max(left>>9, 0) + 1 {
		got := CoarseBudget(left)
		if got == 0 || left <= 0 && got > 0 || left > 0 && (got > left || 256*(left-got) > left) {
			t.Fatalf("%v left are told as %v, expected at most 1/256 less, and never nothing", left, got)
		}
	}
	if sent := CoarseBudget(10*time.Second - 50*time.Microsecond); sent != CoarseBudget(10*time.Second-500*time.Microsecond) {
		t.Error("two requests with the same timeout, of which one took longer to send, tell different budgets")
	}
	for _, tt := range []struct{ waited, objective, told time.Duration }{
		{0, 0, 0}, {5, 0, 5}, {0, 128, 0}, {5, 100, 5}, {999, 128_000, 0}, {1_000, 128_000, 1_000}, {1_999, 128_000, 1_000}, {200_500, 128_000, 200_000},
	} {
		if got := coarseWait(tt.waited, tt.objective); got != tt.told {
			t.Errorf("a wait of %v at an objective of %v is told as %v, expected %v", tt.waited, tt.objective, got, tt.told)
		}
	}
}

// TestHeard: the same text is read once, one with a budget twice, and each time what cannot be read or tells of a line.
func TestHeard(t *testing.T) {
	read := 0
	parse := func(text string) (wire.Tags, error) {
		read++
		switch text {
		case "bad":
			return wire.Tags{}, errors.New("bad")
		case "line":
			return wire.Tags{Workflow: text, Demand: 3}, nil
		case "left1", "left2":
			return wire.Tags{Workflow: text, Budget: 3}, nil
		}
		return wire.Tags{Workflow: text}, nil
	}
	var h Heard
	for i, step := range []struct {
		h    *Heard
		text string
		read int
	}{{&h, "a", 1}, {&h, "a", 1}, {&h, "bad", 2}, {&h, "bad", 3}, {&h, "a", 3}, {&h, "line", 4}, {&h, "line", 5}, {&h, "a", 5}, {&h, "b", 6}, {nil, "b", 7},
		{&h, "left1", 8}, {&h, "left2", 9}, {&h, "b", 9}, {&h, "left1", 10}, {&h, "left1", 11}, {&h, "left1", 11}, {&h, "left2", 12}, {&h, "left1", 12}} {
		tags, err := step.h.Tags(step.text, parse)
		if bad := step.text == "bad"; read != step.read || (err != nil) != bad || !bad && tags.Workflow != step.text {
			t.Errorf("step %d: %+v, %v after %d readings, want %q after %d", i, tags, err, read, step.text, step.read)
		}
	}
}
