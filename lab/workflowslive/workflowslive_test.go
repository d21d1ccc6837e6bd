package workflowslive

import (
	"context"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the program of the children.
func TestMain(m *testing.M) {
	Child()
	goleak.VerifyTestMain(m)
}

func processes(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
