package arena

import (
	"math"
	"slices"
	"testing"
	"time"
)

const (
	stat = `cpu  900 0 900 900 0 0 0 0 0 0
cpu0 1000 20 300 5000 10 0 50 7 0 0
cpu1 1 1 1 1 1 1 1 1 0 0
cpu10 9 9 9 9 9 9 9 9 0 0
`
	process = "4711 (a (b) c) S 1 4711 4711 0 -1 4194304 98 0 0 0 250 50 0 0 20 0 1 0 493410"
)

func TestUsageParse(t *testing.T) {
	got := usage{}.parse(stat, process, 0)
	if !got.known || got.all != 1320 || got.stolen != 7 || got.mine != 300 {
		t.Errorf("parsed %+v, want 1320 ticks in all, 7 stolen, 300 of the process", got)
	}
	for name, c := range map[string]struct{ stat, process string }{
		"nothing": {}, "no such processor": {"cpu7 1 2 3 4 5 6 7 8", process}, "a short line": {"cpu0 1 2", process},
		"no name": {stat, "4711 S 1 2 3"}, "a short process": {stat, "1 (x) S 1 2"},
	} {
		if got := (usage{}).parse(c.stat, c.process, 0); got.known {
			t.Errorf("%s: %+v is said to be known", name, got)
		}
	}
}

func TestStolen(t *testing.T) {
	if got := stolen(stat); !slices.Equal(got, []float64{7, 1, 9}) {
		t.Errorf("stolen %v ticks, want 7, 1 and 9", got)
	}
	for _, text := range []string{"", "cpu0 1 2", "cpu0 1 2 3 4 5 6 7 x"} {
		if got := stolen(text); got != nil {
			t.Errorf("%q: %v ticks are said to be stolen", text, got)
		}
	}
	stop := WatchStolen()
	if got := stop(); got != 0 {
		t.Errorf("%v stolen in no time", got)
	}
}

func TestLostSince(t *testing.T) {
	at := func(seconds, all, stolen, mine float64) usage {
		return usage{at: time.Unix(0, int64(seconds*1e9)), all: all, stolen: stolen, mine: mine, known: true}
	}
	for _, c := range []struct {
		what   string
		after  usage
		others bool
		want   float64
	}{
		{"to itself", at(1, 90, 0, 90), true, 0},
		{"others took a tenth", at(1, 90, 0, 80), true, 0.1},
		{"which do not count", at(1, 90, 0, 80), false, 0},
		{"another machine took some", at(1, 80, 20, 80), false, 0.2},
		{"ticks were rounded", at(1, 80, 0, 81), true, 0},
		{"unknown", usage{at: time.Unix(1, 0), all: 90}, true, 0},
	} {
		if got := c.after.lostSince(at(0, 0, 0, 0), c.others); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g lost, want %g", c.what, got, c.want)
		}
	}
}
