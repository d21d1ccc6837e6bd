package service

import (
	"testing"
	"time"
)

// A worker that is free with somebody waiting starts where it became free, however
// late that is known, and never before the request is there.
func TestBench(t *testing.T) {
	now := time.Now()
	for _, test := range []struct{ free, arrived, want time.Duration }{{10, 5, 10}, {10, 20, 20}} {
		b := NewBench(1)
		b.Take(now)
		b.Give(now.Add(test.free))
		if got := b.Take(now.Add(test.arrived)).Sub(now); got != test.want || len(b.free) != 0 {
			t.Errorf("free at %d and there at %d: starts at %d, want %d", test.free, test.arrived, got, test.want)
		}
	}
	b := Bench{free: []time.Time{now.Add(time.Second), now}}
	if b.Take(now); len(b.free) != 1 || !b.free[0].Equal(now.Add(time.Second)) {
		t.Errorf("left idle is %v, want the one that was free last", b.free)
	}
}

// Work that begins at an instant is done as fast as the station then is.
func TestFinish(t *testing.T) {
	st, err := New(Config{Mean: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	at := time.Now().Add(time.Hour)
	if err := st.SlowAt(at, 4); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ start, work, want time.Duration }{{-time.Minute, time.Second, time.Second}, {0, time.Second, 4 * time.Second}, {-time.Second, 2 * time.Second, 5 * time.Second}} {
		if got := st.Finish(at.Add(c.start), c.work).Sub(at.Add(c.start)); got != c.want {
			t.Errorf("%v from %v on takes %v, want %v", c.work, c.start, got, c.want)
		}
	}
}
