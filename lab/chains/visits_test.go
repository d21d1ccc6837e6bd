package chains

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// logged writes visits as a proxy logs them, times in milliseconds since an instant.
func logged(visits ...[4]int) string {
	var b strings.Builder
	b.WriteString(`{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"started"}` + "\n")
	for _, v := range visits {
		at := time.Unix(0, 0).Add(time.Duration(v[2]) * ms).UTC().Format(time.RFC3339Nano)
		fmt.Fprintf(&b, `{"time":%q,"msg":"request","decision":"admit","class":%q,"queued":%d,"service":%d}`+"\n",
			at, work.Class(v[3]), time.Duration(v[1]-v[0])*ms, time.Duration(v[2]-v[1])*ms)
	}
	b.WriteString(`{"time":"2026-01-01T00:00:00Z","msg":"request","decision":"refuse","class":"default","queued":5}` + "\n")
	return b.String()
}

// Each visit is its arrival, start and end, and its class: 0 a single, 1 of a chain.
func TestReplay(t *testing.T) {
	const single, chain = int(work.Default), int(work.Interactive)
	for _, c := range []struct {
		what         string
		workers      int
		visits       [][4]int
		waited, fifo time.Duration
		of           [work.NumClasses]time.Duration // fifo, by class
	}{
		{"in order", 1, [][4]int{{0, 0, 10, single}, {1, 10, 20, single}, {2, 20, 30, chain}}, 27 * ms, 27 * ms, [...]time.Duration{single: 9 * ms, chain: 18 * ms}},
		// The chain goes first; those who are served in turn take as long as they did.
		{"by class", 1, [][4]int{{0, 0, 10, single}, {1, 20, 26, single}, {2, 10, 20, chain}}, 27 * ms, 27 * ms, [...]time.Duration{single: 9 * ms, chain: 18 * ms}},
		{"two workers", 2, [][4]int{{0, 0, 10, single}, {0, 0, 4, single}, {1, 4, 9, chain}, {2, 9, 12, single}}, 10 * ms, 10 * ms, [...]time.Duration{single: 7 * ms, chain: 3 * ms}},
		{"idle in between", 1, [][4]int{{0, 0, 10, single}, {1, 15, 20, single}}, 14 * ms, 9 * ms, [...]time.Duration{single: 9 * ms, chain: 0}},
	} {
		visits, err := readVisits(strings.NewReader(logged(c.visits...)))
		if err != nil || len(visits) != len(c.visits) {
			t.Fatalf("%s: %d visits, %v", c.what, len(visits), err)
		}
		got := replay(visits, c.workers)
		if got.Waited != c.waited || got.FIFO != c.fifo {
			t.Errorf("%s: waited %v, in order of arrival %v; expected %v and %v", c.what, got.Waited, got.FIFO, c.waited, c.fifo)
		}
		for class, want := range c.of {
			if got.Class[class].FIFO != want {
				t.Errorf("%s: %v would have waited %v in order of arrival, expected %v", c.what, work.Class(class), got.Class[class].FIFO, want)
			}
		}
		if _, ok := got.LawDistance(); !ok {
			t.Errorf("%s: no distance from the law: %+v", c.what, got)
		}
	}
	if _, err := readVisits(strings.NewReader("panic: no JSON\n")); err == nil || !strings.Contains(err.Error(), "panic: no JSON") {
		t.Errorf("error %v, expected one with the line", err)
	}
}
