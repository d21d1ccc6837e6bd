package arena

import (
	"context"
	"math"
	"testing"
	"time"
)

func TestInUse(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          float64
		ok            bool
	}{
		"a quarter":             {"cpu 0 0 0 0 0 0 0 0 0 0\ncpu0", "cpu 10 5 5 50 10 0 0 0 0 0\n", 0.25, true},
		"stolen time is in use": {"cpu 0 0 0 0 0 0 0 0", "cpu 0 0 0 50 0 0 0 50", 0.5, true},
		"no time passed":        {"cpu 1 1 1 1 1 1 1 1", "cpu 1 1 1 1 1 1 1 1", 0, false},
		"unreadable":            {"", "", 0, false},
		"not numbers":           {"cpu a b c d e f g h", "cpu a b c d e f g h", 0, false},
	} {
		if got, ok := inUse(c.before, c.after); ok != c.ok || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, %v, want %g, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestAwaitQuietEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if took := AwaitQuiet(ctx, time.Hour); took > time.Minute {
		t.Errorf("waited %v", took)
	}
}
