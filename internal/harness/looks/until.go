// Package looks helps tests of adapters with real servers, which show things a while after they were done.
package looks

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
)

// Patience only ends a test that hangs.
const Patience = time.Minute

// Looker is the part of a source that looks.
type Looker interface {
	Look(ctx context.Context) (*track.Look, error)
}

// Until looks until a look is as wanted, and returns it. The test ends if a look fails; what says what is missing.
func Until(t *testing.T, source Looker, what string, want func(*track.Look) bool) *track.Look {
	t.Helper()
	var l *track.Look
	for began := time.Now(); time.Since(began) < Patience; time.Sleep(5 * time.Millisecond) {
		var err error
		if l, err = source.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want(l) {
			return l
		}
	}
	t.Fatalf("no %s; the last look shows %+v of %+v", what, l.Sample.Tasks, l.Sessions)
	return nil
}
