//go:build !race

package fastrpc

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate"
)

// The race detector has pools forget at random, so that there the figures say nothing.

func TestACallAllocatesNothing(t *testing.T) {
	for name, gated := range map[string]bool{"plain": false, "credits": true} {
		var cfg ServerConfig
		if gated {
			cfg.Gate = newGate(t, spillgate.Config{})
		}
		_, address := serve(t, cfg, echoes)
		c := dial(t, ClientConfig{}, address)
		in, out := make([]byte, 32), make([]byte, 0, 32)
		for _, method := range []string{"inline", "echo"} {
			m := c.Method(method)
			call := func() {
				if _, err := m.Call(context.Background(), in, out); err != nil {
					t.Fatal(err)
				}
			}
			for range 200 { // buffers grow
				call()
			}
			// Of both sides, for they are one process. The average is rounded down: a pool that the
			// garbage collector empties, and the gate's own timers, do not count.
			if n := testing.AllocsPerRun(2000, call); n > 0 {
				t.Errorf("%s, %s: %v allocations a call, expected none", name, method, n)
			}
		}
	}
}
