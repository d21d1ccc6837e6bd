package slots

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const kindsObjective = 100 * time.Millisecond

// ends lets n requests of a kind begin and end one after another, each late or not, with or without a slot at the end.
func ends(k *Kinds, name string, n int, late bool) {
	asked := func() string { return name }
	for range n {
		nature := k.Begin(name)
		if late {
			nature = k.Outlived(nature, asked)
			k.Lent(nature)
		}
		k.End(nature, asked, !late, late, true)
	}
}

// crowds reports whether one more of a kind that comes at once would be one too many.
func crowds(k *Kinds, name string, limit int) bool {
	n := k.Long(k.came, name, kindsObjective)
	return n != nil && k.Full(n, limit, 0)
}

// TestKinds: a kind that mostly outlives the objective holds half of the slots at most, if others are in time; and it is so
// no more once most end in time.
func TestKinds(t *testing.T) {
	var k Kinds
	ends(&k, "get", 20, false)
	if !k.Empty() || k.Any() {
		t.Fatal("a kind is known though none outlived its objective")
	}
	ends(&k, "poll", kindLeast-1, true)
	if k.Any() {
		t.Error("7 requests tell what a kind is")
	}
	ends(&k, "poll", 1, true)
	var held []*Nature
	for range 4 {
		held = append(held, k.Begin("poll"))
	}
	for _, c := range []struct {
		name  string
		limit int
		want  bool
	}{{"poll", 8, true}, {"poll", 9, true}, {"poll", 10, false}, {"get", 8, false}} {
		if got := crowds(&k, c.name, c.limit); got != c.want {
			t.Errorf("4 polls hold slots of %d: %s crowds others out: %v", c.limit, c.name, got)
		}
	}
	k.Lent(k.Outlived(held[0], nil)) // gives its slot back and runs on
	if crowds(&k, "poll", 8) {
		t.Error("3 of 8 slots are half of them")
	}
	k.End(held[0], nil, false, true, true)
	held = append(held[1:], k.Begin("poll"))
	ends(&k, "get", 100, true)
	if !crowds(&k, "poll", 8) {
		t.Error("others are late now, and polls may take their slots")
	}
	if ends(&k, "poll", kindMemory, false); k.known["poll"].long {
		t.Error("most polls ended in time, and slots are kept from them")
	}
	for _, n := range held {
		k.End(n, nil, true, false, true)
	}
	if k.holding != 0 || k.known["poll"].holding != 0 || k.known["poll"].running != 0 {
		t.Errorf("at the end %d slots are held, and of polls %+v", k.holding, k.known["poll"])
	}
}

// TestPollsFirst: polls that were there before anything else ended are known for what they are as soon as others end in
// time, also if their objectives ended before.
func TestPollsFirst(t *testing.T) {
	for _, before := range []int{0, 1, 3} {
		var k Kinds
		ends(&k, "get", before, false)
		for range 2 * kindLeast {
			k.Outlived(nil, func() string { return "poll" })
		}
		if k.Any() != (before > 0) {
			t.Errorf("%d others ended in time before: known: %v", before, k.Any())
		}
		if ends(&k, "get", 1, false); !k.Any() || k.Long(1, "get", kindsObjective) != nil {
			t.Errorf("%d others ended in time before, and one afterwards: known: %v", before, k.Any())
		}
	}
}

// TestTheOnlyKind: where all requests are of one kind, it never keeps slots from itself, whether they outlive the objective
// from the beginning or since the service became slow.
func TestTheOnlyKind(t *testing.T) {
	for _, before := range []int{0, 1, 100} {
		var k Kinds
		ends(&k, "do", before, false)
		for n := range 200 {
			if ends(&k, "do", 1, n%8 != 0); k.Any() {
				t.Fatalf("after %d ends in time and %d of which most were late slots are kept for nobody", before, n+1)
			}
		}
	}
}

// TestTheOnlyKindLeft: once nothing else comes, a kind has all slots again.
func TestTheOnlyKindLeft(t *testing.T) {
	var k Kinds
	ends(&k, "get", 1, false)
	ends(&k, "poll", kindLeast, true)
	now := mono.Time(time.Hour)
	k.Long(now, "get", kindsObjective)
	held := k.Begin("poll")
	for _, c := range []struct {
		after time.Duration
		long  bool
	}{{0, true}, {lonely * kindsObjective, true}, {lonely*kindsObjective + 1, false}} {
		if long := k.Long(now.Add(c.after), "poll", kindsObjective) != nil; long != c.long || k.Any() != c.long {
			t.Errorf("nothing else came for %v: long %v, any %v", c.after, long, k.Any())
		}
	}
	k.End(held, nil, true, false, true)
	if k.holding != 0 || k.known["poll"].holding != 0 {
		t.Errorf("%d and %d slots are held at the end", k.holding, k.known["poll"].holding)
	}
}

// TestManyLongKinds: each long kind may hold one slot, so that none keeps another out, but all of them no more than the
// limit, however many names a client thinks of.
func TestManyLongKinds(t *testing.T) {
	var k Kinds
	ends(&k, "get", 1, false)
	for i := range 20 {
		ends(&k, fmt.Sprint(i), kindLeast, true)
		ends(&k, "get", 1, false)
	}
	for limit := range 30 {
		var held []*Nature
		for i := range 20 {
			for range 20 {
				if n := k.Long(1, fmt.Sprint(i), kindsObjective); !k.Full(n, limit, 0) {
					held = append(held, k.Begin(fmt.Sprint(i)))
				}
			}
		}
		if want := max(min(20, limit), 1); len(held) != want { // one also of a quarter of a limit of 3: see Limit.Waits
			t.Errorf("with a limit of %d, %d kinds hold %d slots, expected %d", limit, 20, len(held), want)
		}
		for _, n := range held {
			k.End(n, nil, true, false, false)
		}
	}
}

// TestKindsAreBounded: a client that asks for ever other things does not fill the memory, and what is known of long kinds
// stays.
func TestKindsAreBounded(t *testing.T) {
	var k Kinds
	ends(&k, "get", 1, false)
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
	if !crowds(&k, "poll", 8) {
		t.Error("the long kind is forgotten")
	}
	for i := range mostKinds {
		ends(&k, "get", 1, false)
		ends(&k, fmt.Sprint("long", i), kindLeast, true)
	}
	if n := k.Outlived(nil, func() string { return "one more" }); n != nil || len(k.known) > mostKinds {
		t.Errorf("%d kinds are known, and one more is: %v", len(k.known), n != nil)
	}
}

// TestKindsThatNobodyAsksFor: kinds that were long once take no part from a poll once nobody has asked for them for long, while
// the poll itself stays long.
func TestKindsThatNobodyAsksFor(t *testing.T) {
	var k Kinds
	ends(&k, "get", 1, false)
	for i := range 11 {
		ends(&k, map[bool]string{true: "poll", false: fmt.Sprint(i)}[i == 10], kindLeast, true)
		ends(&k, "get", 1, false)
	}
	may := func(now mono.Time) (n int) {
		k.Long(now, "get", kindsObjective)
		var held []*Nature
		for poll := k.Long(now, "poll", kindsObjective); !k.Full(poll, 24, 0); n++ {
			held = append(held, k.Begin("poll"))
		}
		for _, n := range held {
			k.End(n, nil, true, false, false)
		}
		return n
	}
	now := mono.Time(time.Hour)
	if n := may(now); n != 1 {
		t.Errorf("beside ten long kinds a poll may hold %d slots of 24, want 1", n)
	}
	for range 3 {
		now = now.Add(unasked*kindsObjective + 1)
		may(now)
	}
	if n := may(now); n != 12 {
		t.Errorf("nobody has asked for ten long kinds for long: a poll may hold %d slots of 24, want 12", n)
	}
}

// BenchmarkDoubt is an end in time of one of 64 kinds, of each of which two thirds outlive the objective.
func BenchmarkDoubt(b *testing.B) {
	var k Kinds
	var names [mostKinds]string
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	for i := range 20 * mostKinds {
		ends(&k, names[i%mostKinds], 1, i/mostKinds%3 != 0)
	}
	for i := range b.N {
		ends(&k, names[i%mostKinds], 1, i/mostKinds%3 != 0)
	}
}
