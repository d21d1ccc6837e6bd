// Package await waits in tests, and says what it waited for if that did not come.
//
// A test that waits for ever ends with its whole package, after minutes, and with a dump of
// all goroutines in which the line that waits is one of hundreds. A wait that ends by itself
// is a failure of one test that names what is missing.
//
//	what comes in time      the test goes on
//	nothing for Patience    the test fails: "waited in vain for: an answer"
//
// What this package does not do: it decides no test by how long something took. Patience is far
// beyond what the slowest machine takes.
package await

import (
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for one thing: much longer than a busy machine with the race
// detector was seen to stand still (seconds), and a tenth of the time that a package of tests has.
const Patience = time.Minute

// Value returns what comes on c, the zero value if c is closed. Otherwise it ends the test. It is
// called by the test's own goroutine, or in its cleanup.
func Value[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-c:
		return v
	case <-late.C:
		t.Fatalf("waited in vain for: %s", what)
		panic("unreachable")
	}
}

// All returns when the goroutines of a group have ended. Otherwise it ends the test. It is called
// as Value is.
func All(t testing.TB, group *sync.WaitGroup, what string) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); group.Wait() }()
	Value(t, ended, what)
}
