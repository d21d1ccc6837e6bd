// Package seeded makes property tests draw the same cases on every run: a test
// that passes today passes tomorrow, and a failure points to a change of the code.
//
// A test package that checks properties imports it for its side effect, the seed. The
// tests themselves decide what is drawn. `make soak` sets the seed to 0 (a random one)
// and draws many more cases.
package seeded

import (
	"flag"

	_ "pgregory.net/rapid" // registers the flag that is set here
)

func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic("seeded: the flag rapid.seed of pgregory.net/rapid cannot be set: " + err.Error())
	}
}
