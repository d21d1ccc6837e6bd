package machine

import (
	"context"
	"math"
	"testing"
	"time"
)

func TestInUse(t *testing.T) {
	for name, c := range map[string]struct {
		before, after processor
		want          float64
		ok            bool
	}{
		"a quarter":             {processor{}, processor{user: 10, nice: 5, system: 5, idle: 50, ioWait: 10}, 0.25, true},
		"stolen time is in use": {processor{}, processor{idle: 50, stolen: 50}, 0.5, true},
		"no time passed":        {processor{user: 1, idle: 1}, processor{user: 1, idle: 1}, 0, false},
		"nothing was read":      {processor{}, processor{}, 0, false},
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
