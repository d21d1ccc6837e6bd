package machine

import "testing"

func TestParseProcessors(t *testing.T) {
	got := parseProcessors(`cpu  900 0 900 900 0 0 0 0 0 0
cpu0 1000 20 300 5000 10 0 50 7 0 0
cpu1 1 2 3
cpu2 1 1 1 1 1 1 1 x 0 0
cpu10 9 9 9 9 9 9 9 9 0 0
intr 1 2 3 4 5 6 7 8
`)
	first := processor{user: 1000, nice: 20, system: 300, idle: 5000, ioWait: 10, softIRQ: 50, stolen: 7}
	if len(got) != 3 || got["cpu0"] != first || got["cpu10"].stolen != 9 || got[allProcessors].idle != 900 {
		t.Errorf("parsed %+v, want the sum, cpu0 and cpu10", got)
	}
	if first.used() != 1320 || first.unused() != 5010 || first.total() != 6387 {
		t.Errorf("%+v: used %g, unused %g of %g, want 1320 and 5010 of 6387", first, first.used(), first.unused(), first.total())
	}
	if got := parseProcessors(""); len(got) != 0 {
		t.Errorf("parsed %+v from nothing", got)
	}
}

func TestParseProcess(t *testing.T) {
	for _, c := range []struct {
		what, stat string
		want       float64
		ok         bool
	}{
		{"a name with blanks and parentheses", "4711 (a (b) c) S 1 4711 4711 0 -1 4194304 98 0 0 0 250 50 0 0 20 0 1 0 493410", 300, true},
		{"nothing", "", 0, false},
		{"no name", "4711 S 1 2 3", 0, false},
		{"a short line", "1 (x) S 1 2", 0, false},
		{"not a number", "1 (x) S 1 1 1 0 -1 1 1 0 0 0 x 50", 0, false},
	} {
		if got, ok := parseProcess(c.stat); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %g ticks, %v, want %g, %v", c.what, got, ok, c.want, c.ok)
		}
	}
}

func TestMostStolen(t *testing.T) {
	taken := func(first, second float64) map[string]processor {
		return map[string]processor{allProcessors: {stolen: first + second}, "cpu0": {stolen: first}, "cpu1": {stolen: second}}
	}
	if got := mostStolen(taken(3, 5), taken(7, 20)); got != 15 {
		t.Errorf("%g ticks, want the 15 of the second", got)
	}
	if got := mostStolen(nil, taken(7, 20)); got != 0 {
		t.Errorf("%g ticks since no reading", got)
	}
	stop := WatchStolen()
	if got := stop(); got != 0 {
		t.Errorf("%v stolen in no time", got)
	}
}
