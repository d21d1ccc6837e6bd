package slots

import (
	"testing"
	"time"
)

// TestBarren: where a service further down refuses a part of every request, a quarter runs after two rounds of them, and
// as many as before once requests have succeeded again. A request that succeeds now and then is no reason for fewer.
func TestBarren(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 64})
	if err != nil {
		t.Fatal(err)
	}
	for range 2*64 - 1 {
		l.Barren()
	}
	l.fruit(0)
	for range 2*64 - 1 {
		l.Barren()
	}
	if got := l.Limit(); got != 64 {
		t.Errorf("one in 128 succeeds: the limit is %d, want 64", got)
	}
	l.Barren()
	if got := l.Limit(); got != 16 {
		t.Errorf("128 in a row fail: the limit is %d, want 16", got)
	}
	for _, want := range []int{32, 64} {
		for range l.Limit() {
			l.fruit(0)
		}
		if got := l.Limit(); got != want {
			t.Errorf("a round succeeds: the limit is %d, want %d", got, want)
		}
	}
	if l.barren.bound != 0 {
		t.Errorf("all succeed: the bound is %v, want none", l.barren.bound)
	}
	for range 10_000 {
		l.Barren()
	}
	if got := l.Limit(); got != 1 {
		t.Errorf("all fail: the limit is %d, want 1", got)
	}
	l.SetUseful(8)
	if got := l.Limit(); got != 8 {
		t.Errorf("eight processors are short: the limit is %d, want 8", got)
	}
}

// TestBarrenBesideOthers: once all have failed, a tenth that goes on to fail does not keep the others from their slots.
func TestBarrenBesideOthers(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 256})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * 256 {
		l.Barren()
	}
	if got := l.Limit(); got != 64 {
		t.Fatalf("all fail: the limit is %d, want 64", got)
	}
	for i := range 400 {
		if i%10 == 0 {
			l.Barren()
		} else {
			l.fruit(0)
		}
	}
	if got := l.Limit(); got != 256 {
		t.Errorf("one in ten fails: the limit is %d, want 256", got)
	}
}
