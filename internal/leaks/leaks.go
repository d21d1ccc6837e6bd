// Package leaks looks, when the tests of a package have ended, for goroutines that they left.
//
//	none            the tests pass
//	some            they have await.Patience to end; goleak itself waits for half a second, in which
//	                a busy machine ends nothing that waits for a connection, a timer or a process
//	some are left   the tests fail, with their stacks
//
// What this package does not do: it ends no goroutine, and it does not look while tests run.
package leaks

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/internal/await"
)

// Verify runs the tests of a package and ends the program, as goleak.VerifyTestMain does. It is
// called last in TestMain.
func Verify(m *testing.M, options ...goleak.Option) { goleak.VerifyTestMain(patient{m}, options...) }

// Find returns nil once no goroutines are left but that of the caller, and an error with the stacks
// of those that are left after await.Patience.
func Find() error {
	for end := time.Now().Add(await.Patience); ; time.Sleep(10 * time.Millisecond) {
		if err := goleak.Find(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// patient is tests that end with their goroutines, if these end at all.
type patient struct{ m *testing.M }

func (p patient) Run() int {
	code := p.m.Run()
	if code == 0 {
		_ = Find() // goleak says which are left
	}
	return code
}
