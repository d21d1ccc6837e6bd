package admission

import (
	"math"
	"testing"
)

// sent is where a sender without a peer counts.
func sent(number uint64) *senders { return &senders{own: cellsOf(number)} }

// TestUsageFades: a request counts 1, and after 4,096 others (1+1/4096)⁻⁴⁰⁹⁶ = 0.368 of
// one; all together never more than 4,097.
func TestUsageFades(t *testing.T) {
	u := newUsage()
	u.let(sent(1))
	if got := u.of(cellsOf(1)); got != 1 {
		t.Errorf("%v after one request, want 1", got)
	}
	for range usageMemory {
		u.let(sent(2))
	}
	if got := u.of(cellsOf(1)); math.Abs(got-0.368) > 0.001 {
		t.Errorf("%.4f after %d requests of another, want 0.368", got, usageMemory)
	}
	for range 10 * usageMemory {
		u.let(sent(2))
	}
	if got := u.total(); math.Abs(got-usageMemory-1) > 1 {
		t.Errorf("%v in all, want %d", got, usageMemory+1)
	}
}

// TestUsageOutlastsItsUnit: where the unit starts again nobody has more or less.
func TestUsageOutlastsItsUnit(t *testing.T) {
	u := newUsage()
	for i := range 1000 {
		u.let(sent(uint64(i % 3)))
	}
	before, all := u.of(cellsOf(1)), u.total()
	u.shrink()
	if got := u.of(cellsOf(1)); math.Abs(got-before) > 1e-9 || math.Abs(u.total()-all) > 1e-9 {
		t.Errorf("%v of %v, before %v of %v", got, u.total(), before, all)
	}
	u.unit = usageLargest
	u.let(sent(1))
	if u.unit > 2 || math.IsInf(u.of(cellsOf(1)), 0) || math.IsNaN(u.of(cellsOf(1))) {
		t.Errorf("unit %v, sender %v, want the unit to start again", u.unit, u.of(cellsOf(1)))
	}
}

// TestUsageTellsSendersApart: beside one of two thousand senders that had a thousand times
// as much as each other, fewer than one in a hundred seem to have had much.
func TestUsageTellsSendersApart(t *testing.T) {
	u := newUsage()
	for range 1000 {
		u.let(sent(7))
	}
	wrong := 0
	for i := range uint64(2000) {
		if i != 7 && u.of(cellsOf(i)) > 100 {
			wrong++
		}
	}
	if got := u.of(cellsOf(7)); got < 800 || wrong > 20 {
		t.Errorf("sender 7 had %.0f, want about 890; %d others seem to have had much, want at most 20", got, wrong)
	}
	u.add(sent(7), -1e9) // more than it had is nothing
	if u.of(cellsOf(7)) != 0 || u.total() != 0 {
		t.Errorf("%v of %v left, want nothing", u.of(cellsOf(7)), u.total())
	}
}
