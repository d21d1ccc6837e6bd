package share

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// TestListing: keys come in the order in which they were learned last, newest
// first, and what was forgotten is not among them.
func TestListing(t *testing.T) {
	c, err := NewClassifier(ClassifierConfig{MaxKeys: 3, Few: 1, Overrides: []Override{{Method: "d", Class: work.Interactive}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.AppendVerdicts(nil, -1); len(got) != 0 {
		t.Errorf("a classifier that knows nothing lists %v", got)
	}
	for _, method := range []string{"a", "b", "c", "b", "d"} {
		c.Learn(Key{Method: method}, Course{Service: time.Millisecond, Own: time.Millisecond})
	}
	names := func(n int) (out []string) {
		for _, v := range c.AppendVerdicts(nil, n) {
			out = append(out, fmt.Sprintf("%s %v %v %d", v.Key.Method, v.Class, v.Why, v.Seen))
		}
		return out
	}
	want := []string{"d interactive override 1", "b default neither 2", "c default neither 1"}
	for n, want := range map[int][]string{-1: want, 0: nil, 2: want[:2], 99: want} {
		if got := names(n); !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
