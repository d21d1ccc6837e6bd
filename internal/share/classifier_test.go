package share

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/work"
)

const ms = time.Millisecond

func newClassifier(t testing.TB, cfg ClassifierConfig) *Classifier {
	c, err := NewClassifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClassify(t *testing.T) {
	order := Key{"web", "orders", "Place"}
	tests := []struct {
		name  string
		learn func(c *Classifier)
		class work.Class
		why   Why
	}{
		{"nothing known", func(*Classifier) {}, work.Default, ByUnknown},
		{"seven requests are too few", func(c *Classifier) { repeat(c, order, 7, 3, 9*ms, 1*ms) }, work.Default, ByFew},
		{"eight are enough", func(c *Classifier) { repeat(c, order, 8, 3, 9*ms, 1*ms) }, work.Interactive, ByHops},
		{"calls hidden from here show in the total", func(c *Classifier) { repeat(c, order, 8, 0, 9*ms, 1*ms) }, work.Interactive, ByTotal},
		{"a single hop", func(c *Classifier) { repeat(c, order, 8, 0, 1*ms, 1*ms) }, work.Default, ByNeither},
		{"every second one goes on", func(c *Classifier) {
			for range 8 {
				repeat(c, order, 1, 0, 1*ms, 1*ms)
				repeat(c, order, 1, 1, 1*ms, 1*ms)
			}
		}, work.Default, ByNeither},
		{"a little less than before", func(c *Classifier) {
			repeat(c, order, 64, 1, 1*ms, 1*ms)
			for range 16 {
				repeat(c, order, 1, 0, 1*ms, 1*ms)
				repeat(c, order, 9, 1, 1*ms, 1*ms)
			}
		}, work.Interactive, ByHistory},
		{"no longer at all", func(c *Classifier) {
			repeat(c, order, 64, 1, 1*ms, 1*ms)
			repeat(c, order, 64, 0, 1*ms, 1*ms)
		}, work.Default, ByNeither},
	}
	for _, tt := range tests {
		c := newClassifier(t, ClassifierConfig{})
		tt.learn(c)
		if v := c.Explain(order); v.Class != tt.class || v.Why != tt.why || c.Classify(order) != tt.class {
			t.Errorf("%s: %v because of %v, want %v, %v (%+v)", tt.name, v.Class, v.Why, tt.class, tt.why, v)
		}
	}
}

func repeat(c *Classifier, k Key, n, hops int, total, own time.Duration) {
	for range n {
		c.Learn(k, Course{Hops: hops, Total: total, Own: own})
	}
}

func TestOverridesDecideFirst(t *testing.T) {
	c := newClassifier(t, ClassifierConfig{Overrides: []Override{
		{Method: "Export", Class: work.Default},
		{Caller: "web", Class: work.Interactive},
	}})
	for _, tt := range []struct {
		key   Key
		class work.Class
		why   Why
	}{
		{Key{"web", "orders", "Export"}, work.Default, ByOverride},
		{Key{"web", "orders", "Place"}, work.Interactive, ByOverride},
		{Key{"cron", "orders", "Place"}, work.Default, ByUnknown},
	} {
		if v := c.Explain(tt.key); v.Class != tt.class || v.Why != tt.why {
			t.Errorf("%v: %v, %v, want %v, %v", tt.key, v.Class, v.Why, tt.class, tt.why)
		}
	}
}

// TestNoFlapping: once the mean has settled right at the threshold, the class stays,
// and does not change each time chance carries the mean across.
func TestNoFlapping(t *testing.T) {
	flaps := func(leave float64) int {
		c := newClassifier(t, ClassifierConfig{Leave: leave})
		k := Key{"a", "b", "c"}
		changes, last := 0, work.Default
		for i := range 4000 {
			// Two calls, then none, ten times each: on average one.
			c.Learn(k, Course{Hops: 2 * (i / 10 % 2), Total: ms, Own: ms})
			if class := c.Classify(k); class != last {
				last = class
				if i >= 400 {
					changes++
				}
			}
		}
		return changes
	}
	if got := flaps(0.25); got > 0 {
		t.Errorf("the class changed %d times, want never", got)
	}
	if got := flaps(1e-9); got < 50 {
		t.Errorf("without hysteresis the class changed %d times; the test shows nothing", got)
	}
}

// TestKeysAreBounded: made-up methods displace each other and keep what is in use;
// lookups displace nothing.
func TestKeysAreBounded(t *testing.T) {
	c := newClassifier(t, ClassifierConfig{MaxKeys: 100})
	real := Key{"web", "orders", "Place"}
	for i := range 10_000 {
		if i%50 == 0 {
			c.Learn(real, Course{Hops: 2, Total: 9 * ms, Own: ms})
		}
		c.Learn(Key{"evil", "orders", fmt.Sprint(i)}, Course{Total: ms, Own: ms})
		c.Explain(Key{"evil", "orders", fmt.Sprint("look", i)})
	}
	if c.Keys() != 100 || len(c.slots) != 100 {
		t.Errorf("%d keys, %d slots, want 100", c.Keys(), len(c.slots))
	}
	if v := c.Explain(real); v.Class != work.Interactive || v.Seen != 200 {
		t.Errorf("the key in use was forgotten: %+v", v)
	}
	c.Learn(Key{Method: strings.Repeat("x", MaxKeyBytes+1)}, Course{Hops: 5, Total: ms, Own: ms})
	if c.TooLong() != 1 || c.Keys() != 100 {
		t.Errorf("too long: %d, keys %d, want 1, 100", c.TooLong(), c.Keys())
	}
}

// TestClassifierProperties: the list and the index stay one, whatever is learned.
func TestClassifierProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 5).Draw(t, "keys")
		c, err := NewClassifier(ClassifierConfig{MaxKeys: most, Few: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			k := Key{Method: fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "key"))}
			span := func(name string) time.Duration { return time.Duration(rapid.Int64().Draw(t, name)) }
			c.Learn(k, Course{rapid.Int().Draw(t, "hops"), span("total"), span("service"), span("own")})
			if c.newest < 0 || c.slots[c.newest].key != k {
				t.Fatalf("%v is not the newest", k)
			}
			n, interactive := 0, 0
			for at, before := c.oldest, int32(-1); at >= 0; before, at = at, c.slots[at].newer {
				if c.slots[at].interactive {
					interactive++
				}
				if c.slots[at].older != before || c.index[c.slots[at].key] != at {
					t.Fatalf("slot %d is out of order", at)
				}
				n++
			}
			if v := c.Explain(k); interactive != c.interactive || v.Class != c.Classify(k) {
				t.Fatalf("%d keys are interactive, %d of them counted; %v is classified as %v", interactive, c.interactive, v, c.Classify(k))
			}
			if n != c.Keys() || n > most {
				t.Fatalf("%d in the list, %d keys, at most %d", n, c.Keys(), most)
			}
			if v := c.Explain(k); v.Hops < 0 || !(v.Ratio >= 1) {
				t.Fatalf("%+v", v)
			}
		}
	})
}

func TestClassifierConfigReportsEveryMistake(t *testing.T) {
	_, err := NewClassifier(ClassifierConfig{Hops: -1, Total: 0.5, Leave: 2, Memory: -1, Few: -1, MaxKeys: -1, Overrides: []Override{{Class: 9}}})
	for _, word := range []string{"Hops", "Total", "Leave", "Memory", "Few", "MaxKeys", "override 0"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error does not name %s: %v", word, err)
		}
	}
}

func TestWhyNames(t *testing.T) {
	seen := map[string]bool{}
	for w := Why(0); w < numWhys; w++ {
		if name := w.String(); name == "" || seen[name] {
			t.Errorf("reason %d is called %q", w, name)
		} else {
			seen[name] = true
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	c := newClassifier(b, ClassifierConfig{Overrides: []Override{{Caller: "cron"}, {Method: "Export"}}})
	k := Key{"web", "orders", "Place"}
	repeat(c, k, 10, 2, 9*ms, ms)
	b.ReportAllocs()
	for b.Loop() {
		c.Learn(k, Course{Hops: 2, Total: 9 * ms, Own: ms})
		c.Classify(k)
	}
}

// TestIsolated: what a request takes from here on is the mean of what earlier ones
// took, never less than this service's part.
func TestIsolated(t *testing.T) {
	c, _ := NewClassifier(ClassifierConfig{})
	k := Key{"web", "orders", "list"}
	if got := c.Explain(k).Isolated; got != 0 {
		t.Errorf("%v of an unknown key", got)
	}
	for _, service := range []time.Duration{30 * ms, 50 * ms, 0} {
		c.Learn(k, Course{Hops: 1, Total: 60 * ms, Service: service, Own: 10 * ms})
	}
	if got := c.Explain(k).Isolated; got != 30*ms {
		t.Errorf("%v, want the mean of 30, 50 and 10 ms", got)
	}
}
