// Package seeded makes property tests draw the same cases on every run: a test
// that passes today passes tomorrow, and a failure of it is a change's.
//
// A test package that checks properties imports it for its effect. It decides only
// where drawing begins; what is drawn stays with the tests. New cases are drawn by
// `make soak`, which sets the seed to 0 (a random one) and draws many more.
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
