package search

import "testing"

// What the tests of package search_test use of the fake.
const FakeCulprit = fakeCulprit

type Fake struct{ *fake }

func NewFake(elastic bool) Fake {
	f := newFake()
	f.elastic = elastic
	return Fake{f}
}

func (f Fake) Serve(t *testing.T) string { return f.serve(t) }
func (f Fake) Strike()                   { f.strike() }

func (f Fake) Cancels() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancels
}
