package slots

import (
	"fmt"
	"testing"
)

// ends lets n requests of a kind begin and end one after another, each late or not, with or without a slot at the end.
func ends(k *Kinds, name string, n int, late bool) {
	for range n {
		nature := k.Begin(name)
		if late {
			nature = k.Outlived(nature, func() string { return name })
		}
		k.End(nature, !late, late, true)
	}
}

// crowds reports whether one more of a kind would be refused.
func crowds(k *Kinds, name string, limit int) bool { return k.Full(limit) && k.Long(name) }

// TestKinds: of a kind that mostly outlives the objective, no more come once its requests hold half of the slots, unless
// others are late as well; and it is so no more once most end in time.
func TestKinds(t *testing.T) {
	var k Kinds
	ends(&k, "get", 20, false)
	if !k.Empty() {
		t.Fatal("a kind is known though none outlived its objective")
	}
	ends(&k, "poll", kindLeast-1, true)
	var held []*Nature
	for range 4 {
		held = append(held, k.Begin("poll"))
	}
	if crowds(&k, "poll", 8) {
		t.Error("7 ends tell what a kind is")
	}
	ends(&k, "poll", 1, true)
	ends(&k, "get", servedMemory, false)
	for _, c := range []struct {
		name  string
		limit int
		want  bool
	}{{"poll", 8, true}, {"poll", 9, true}, {"poll", 10, false}, {"get", 8, false}} {
		if got := crowds(&k, c.name, c.limit); got != c.want {
			t.Errorf("4 polls hold slots of %d: %s crowds others out: %v", c.limit, c.name, got)
		}
	}
	held[0] = k.Outlived(held[0], nil) // gives its slot back and runs on
	if crowds(&k, "poll", 8) {
		t.Error("3 of 8 slots are half of them")
	}
	k.End(held[0], false, true, true)
	held = append(held[1:], k.Begin("poll"))
	for range servedMemory {
		k.End(nil, true, true, true) // others are late
	}
	if crowds(&k, "poll", 8) {
		t.Error("slots are kept for requests that are late")
	}
	ends(&k, "get", servedMemory, false)
	if !crowds(&k, "poll", 8) {
		t.Error("slots are not kept though others are in time again")
	}
	ends(&k, "poll", kindMemory, false)
	if crowds(&k, "poll", 8) {
		t.Error("most polls ended in time, and slots are kept from them")
	}
	for _, n := range held {
		k.End(n, true, true, true)
	}
	if k.holding != 0 {
		t.Errorf("%d slots are held at the end", k.holding)
	}
}

// TestTheOnlyKind: where all requests are of one kind, it never keeps slots from itself, whether they outlive the objective
// from the beginning or since the service became slow.
func TestTheOnlyKind(t *testing.T) {
	for _, before := range []int{0, 1, 100} {
		var k Kinds
		ends(&k, "do", before, false)
		for n := range 200 {
			ends(&k, "do", 1, true)
			if crowds(&k, "do", 1) || k.known["do"].long && k.inTime > served {
				t.Fatalf("after %d ends in time and %d late ones slots are kept for nobody", before, n+1)
			}
		}
	}
}

// TestKindsAreBounded: a client that asks for ever other things does not fill the memory, and what is known of long kinds
// stays.
func TestKindsAreBounded(t *testing.T) {
	var k Kinds
	ends(&k, "poll", kindLeast, true)
	for i := range 10 * mostKinds {
		ends(&k, fmt.Sprint("/", i), 1, true)
	}
	if len(k.known) > mostKinds {
		t.Errorf("%d kinds are known, at most %d may be", len(k.known), mostKinds)
	}
	for range 4 {
		k.Begin("poll")
	}
	ends(&k, "get", servedMemory, false) // those that came once were late
	if !crowds(&k, "poll", 8) {
		t.Error("the long kind is forgotten")
	}
	for i := range mostKinds {
		ends(&k, fmt.Sprint("long", i), kindLeast, true)
	}
	if n := k.Outlived(nil, func() string { return "one more" }); n != nil || len(k.known) > mostKinds {
		t.Errorf("%d kinds are known, and one more is: %v", len(k.known), n != nil)
	}
}
